// `node scripts/record-release.mjs`: records what later versions are tested with. The histories of the workflow tests go to
// test/histories/<version>, where test/workflows/histories.test.ts replays them from then on; a store with open work goes to
// test/releases/<version>.tar.xz, which test/releases/upgrade.test.ts upgrades (Debian, as root); the statements of the main
// operations to bench/release/released.json, with which .ci/nightly compares them. `npm run release` does it; run it before, as
// often as needed. What a released version has is never recorded again, since its executions may be running anywhere.
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const { version } = JSON.parse(readFileSync(`${root}/package.json`, 'utf8'));
const dir = `${root}/test/histories/${version}`;

/** A released version has a heading in CHANGELOG.md, or a tag. */
function isReleased() {
  const headings = readFileSync(`${root}/CHANGELOG.md`, 'utf8').matchAll(/^##\s+\[?v?([^\s\]]+)/gm);
  if ([...headings].some(([, name]) => name === version)) return true;
  try {
    const tags = execFileSync('git', ['tag', '--list', version, `v${version}`], { cwd: root, encoding: 'utf8' });
    return tags.trim() !== '';
  } catch {
    // no git, or no repository: the changelog decides
    return false;
  }
}

if (existsSync(dir) && isReleased()) {
  process.stderr.write(
    `${version} is released and its histories and store are final: raise the version in package.json first.\n`,
  );
  process.exit(1);
}
rmSync(dir, { recursive: true, force: true });
process.env.RECORD_HISTORIES = dir;
const { register } = await import('tsx/esm/api');
register();
const { runTests } = await import('../test/helpers/runner/run-tests.ts');
process.exitCode = await runTests([
  'test/workflows',
  'test/webhooks/dispatch/retry-delivery',
  'test/api/commands',
  // which reads the histories that are being written
  '--testPathIgnorePatterns=workflows/histories.test',
]);
const { WORKFLOWS } = await import('../src/workflows/names.ts');
const recorded = new Set(readdirSync(dir).map((name) => name.split('.')[0]));
const missing = Object.values(WORKFLOWS).filter((type) => !recorded.has(type));
if (missing.length > 0) {
  process.stderr.write(`These tests have run no ${missing.join(', ')}: add those that do.\n`);
  process.exitCode = 1;
}
if (process.exitCode === 0) {
  process.env.RECORD_STORE = `${root}/test/releases/${version}.tar.xz`;
  process.exitCode = await runTests(['test/releases/record']);
}
if (process.exitCode === 0) {
  const bench = [`${root}/scripts/bench.mjs`, 'counts', '--rounds=5', `--json=${root}/bench/release/released.json`];
  process.exitCode = spawnSync(process.execPath, bench, { stdio: 'inherit' }).status ?? 1;
}
