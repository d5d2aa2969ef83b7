// node scripts/docs/pages.mjs: writes the pages of docs/ that are made from other files: settings.md from src/config/settings,
// alerts.md from deploy/prometheus/alerts.yml. `--check` fails when one differs.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { register } from 'tsx/esm/api';
import { parse } from 'yaml';
import { root } from '../install.mjs';

const ALERTS = 'deploy/prometheus/alerts.yml';

const settingsHead = `# Settings

<!-- Written by scripts/docs/pages.mjs from src/config/settings. -->

Settings are environment variables, which each process reads when it starts. An empty one counts as absent. A wrong one stops the
start with one line that names it. Give API processes and workers the same values.

Times are a number with a unit: \`500ms\`, \`30s\`, \`5m\`, \`2h\`, \`90d\`. \`GET /settings\` of the API shows the values in force, without
secrets. With Docker Compose, write them to \`.env\`; \`.env.example\` names those that must be given.`;

const alertsHead = `# Alerts

<!-- Written by scripts/docs/pages.mjs from ${ALERTS}. -->

The rules of [${ALERTS}](../${ALERTS}), each with what it means and what to do. \`critical\`: mail or webhooks stand still; \`warning\`:
something needs a person within the day. The rules do not depend on the names of jobs.`;

register();
const { SETTING_GROUPS } = await import('../../src/config/settings/index.ts');

function settingsPage() {
  const cell = (text) => text.replaceAll('|', '\\|');
  const rowOf = ([name, { meaning, default: fallback, values }]) =>
    `| \`${name}\` | ${[meaning, fallback, values].map(cell).join(' | ')} |`;
  const sections = Object.entries(SETTING_GROUPS).map(([heading, settings]) => {
    const rows = Object.entries(settings).map(rowOf);
    return [`## ${heading}`, ['| Name | Meaning | Default | Values |', '|-|-|-|-|', ...rows].join('\n')].join('\n\n');
  });
  return [settingsHead, ...sections].join('\n\n');
}

function alertsPage() {
  const { groups } = parse(readFileSync(join(root, ALERTS), 'utf8'));
  const rules = groups.flatMap((group) => group.rules);
  const sections = rules.map(({ alert, expr, for: lasts, labels, annotations: { summary, description } }) =>
    [
      `## ${alert}`,
      // the values of a firing alert
      `\`${labels.severity}\`${lasts ? ` after ${lasts}` : ''}: ${summary.replaceAll(/\{\{[^}]*\}\}/g, '…')}`,
      withLinks(description),
      `\`\`\`text\n${expr.trim()}\n\`\`\``,
    ].join('\n\n'),
  );
  return [alertsHead, ...sections].join('\n\n');
}

/** Names of pages, alerts and settings become links. */
function withLinks(text) {
  return text
    .replace(/docs\/(recipes\/([\w-]+)\.md)/g, '[$2]($1)')
    .replace(/(?<!`)\b(Email[A-Z]\w+)/g, (name) => `[${name}](#${name.toLowerCase()})`)
    .replace(/(?<!`)\b([A-Z]+(?:_[A-Z]+)+)\b/g, '[`$1`](settings.md)');
}

for (const [name, text] of Object.entries({ 'settings.md': settingsPage(), 'alerts.md': alertsPage() })) {
  const path = join(root, 'docs', name);
  if (!process.argv.includes('--check')) writeFileSync(path, `${text}\n`);
  else if (readFileSync(path, 'utf8') !== `${text}\n`) {
    console.error(`docs/${name} is out of date: node scripts/docs/pages.mjs`);
    process.exitCode = 1;
  }
}
