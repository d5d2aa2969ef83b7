// `npm run --silent sbom`: prints the software bill of materials, CycloneDX as JSON: the packages of package-lock.json,
// and the Temporal server that `npm start` downloads or builds.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './install.mjs';

const args = [
  'sbom',
  '--sbom-format',
  'cyclonedx',
  '--sbom-type',
  'application',
  '--omit',
  'dev',
  '--package-lock-only',
];
const bom = JSON.parse(
  execFileSync('npm', args, {
    cwd: root,
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
    stdio: ['ignore', 'pipe', 'ignore'],
  }),
);
const source = readFileSync(join(root, 'src', 'embedded', 'temporal-binary.ts'), 'utf8');
const version = /TEMPORAL_CLI_VERSION = '([^']+)'/.exec(source)?.[1];
if (version === undefined) throw new Error('src/embedded/temporal-binary.ts names no version');
const purl = `pkg:golang/github.com/temporalio/cli@v${version}`;
bom.components.push({
  type: 'application',
  'bom-ref': purl,
  name: 'temporal',
  version,
  purl,
  licenses: [{ license: { id: 'MIT' } }],
  description: 'Temporal CLI with its dev server; only where no TEMPORAL_ADDRESS is set',
});
// the registry that a machine uses is not part of the packages
for (const component of bom.components) {
  component.externalReferences = component.externalReferences?.filter(({ type }) => type !== 'distribution');
}
console.log(JSON.stringify(bom, null, 2));
