// node scripts/docs/settings-page.mjs: writes docs/settings.md from the settings of src/config. `--check` fails when it differs.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { register } from 'tsx/esm/api';
import { root } from '../install.mjs';

const PAGE = join(root, 'docs', 'settings.md');
const HEAD = `# Settings

<!-- Written by scripts/docs/settings-page.mjs from src/config/settings. -->

Settings are environment variables, which each process reads when it starts. An empty one counts as absent. A wrong one stops the
start with one line that names it. Give API processes and workers the same values.

Times are a number with a unit: \`500ms\`, \`30s\`, \`5m\`, \`2h\`, \`90d\`. \`GET /settings\` of the API shows the values in force, without
secrets. With Docker Compose, write them to \`.env\`; \`.env.example\` names those that must be given.
`;

register();
const { SETTING_GROUPS } = await import('../../src/config/settings/index.ts');

const cell = (text) => text.replaceAll('|', '\\|');
const rowOf = ([name, setting]) =>
  `| \`${name}\` | ${[setting.meaning, setting.default, setting.values].map(cell).join(' | ')} |`;
const sections = Object.entries(SETTING_GROUPS).map(([heading, settings]) =>
  [
    `## ${heading}\n`,
    '| Name | Meaning | Default | Values |',
    '|-|-|-|-|',
    ...Object.entries(settings).map(rowOf),
  ].join('\n'),
);
const page = `${[HEAD, ...sections].join('\n')}\n`.replaceAll('|\n## ', '|\n\n## ');

if (!process.argv.includes('--check')) writeFileSync(PAGE, page);
else if (readFileSync(PAGE, 'utf8') !== page) {
  console.error('docs/settings.md is out of date: node scripts/docs/settings-page.mjs');
  process.exit(1);
}
