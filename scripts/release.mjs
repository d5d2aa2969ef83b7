// `npm run release -- 1.2.3`: prepares a release as one commit and a tag, which the caller pushes. The version is set in the
// packages, what later versions are tested with is recorded (record-release.mjs), the picture of README.md is recorded (Debian, as
// root), the section "Unreleased" of CHANGELOG.md becomes that of the version, and `.ci/run` must pass.
// `--check v1.2.3` fails unless the packages and CHANGELOG.md have the version of a tag; `--notes v1.2.3` prints its section.
import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './install.mjs';

const CHANGELOG = join(root, 'CHANGELOG.md');
const PACKAGES = ['package.json', join('web', 'package.json')];
const UNRELEASED = '## [Unreleased]\n';

const UNDO = '`git reset --hard && git clean -d --force test`';

const fail = (reason) => {
  console.error(reason);
  process.exit(1);
};
const git = (...args) => execFileSync('git', args, { cwd: root, encoding: 'utf8' }).trim();
const versionIn = (path) => JSON.parse(readFileSync(join(root, path), 'utf8')).version;

/** The text below the heading of a version or of "Unreleased", without it. */
function sectionOf(name) {
  const [, ...sections] = `\n${readFileSync(CHANGELOG, 'utf8')}`.split('\n## ');
  const section = sections.find((one) => one.startsWith(`[${name}]`));
  return section?.slice(section.indexOf('\n')).trim();
}

function check(tag) {
  const version = tag.replace(/^v/, '');
  for (const path of PACKAGES) {
    if (versionIn(path) !== version) fail(`${path} has version ${versionIn(path)}, the tag is ${tag}`);
  }
  if (!sectionOf(version)) fail(`CHANGELOG.md has no section for ${version}`);
}

function prepare(version) {
  if (!/^\d+\.\d+\.\d+$/.test(version)) fail('Usage: npm run release -- MAJOR.MINOR.PATCH');
  if (git('status', '--porcelain') !== '') fail('The work tree has changes: commit them first');
  if (git('tag', '--list', `v${version}`) !== '') fail(`v${version} is tagged already`);
  if (!sectionOf('Unreleased')) fail('CHANGELOG.md has nothing under "Unreleased"');
  const run = (command, ...args) => {
    const { status } = spawnSync(command, args, { cwd: root, stdio: 'inherit' });
    if (status !== 0) fail(`${command} failed. Nothing is committed; ${UNDO} restores the work tree`);
  };
  run('npm', 'version', version, '--no-git-tag-version', '--workspaces', '--include-workspace-root');
  const chart = join(root, 'deploy', 'helm', 'Chart.yaml');
  writeFileSync(chart, readFileSync(chart, 'utf8').replace(/^(version|appVersion): .*$/gm, `$1: ${version}`));
  run(process.execPath, join('scripts', 'record-release.mjs'));
  run(process.execPath, join('scripts', 'docs', 'picture.mjs'));
  const day = new Date().toISOString().slice(0, 10);
  const changelog = readFileSync(CHANGELOG, 'utf8');
  writeFileSync(CHANGELOG, changelog.replace(UNRELEASED, `${UNRELEASED}\n## [${version}] - ${day}\n`));
  run(join(root, '.ci', 'run'));
  git('add', '--all');
  git('commit', '--quiet', '--message', `release: ${version}`);
  git('tag', '--annotate', `v${version}`, '--message', `${version}`);
  console.log(`Prepared. To publish: git push origin main v${version}`);
}

const [first, tag] = process.argv.slice(2);
if (first === '--check') check(tag);
else if (first === '--notes')
  console.log(sectionOf(tag.replace(/^v/, '')) ?? fail(`CHANGELOG.md has no section for ${tag}`));
else prepare(first ?? '');
