import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from '@jest/globals';

const SCRIPTS = join(import.meta.dirname, '..', '..', 'scripts');
const CHANGELOG = `# Changelog

## [Unreleased]

### Added

- Mailboxes of Microsoft.

## [1.0.0] - 2030-01-01

- The first one.
`;

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'release-'));
  for (const name of ['release.mjs', 'install.mjs']) cpSync(join(SCRIPTS, name), join(root, 'scripts', name));
  write('package.json', JSON.stringify({ name: 'root', version: '1.0.0', workspaces: ['web'] }));
  write('web/package.json', JSON.stringify({ name: 'web', version: '1.0.0' }));
  write('deploy/helm/Chart.yaml', 'version: 1.0.0\nappVersion: 1.0.0\n');
  write('CHANGELOG.md', CHANGELOG);
  // they take minutes, and have their own tests
  write('scripts/record-release.mjs', '');
  write('scripts/docs/picture.mjs', '');
  write('.ci/run', '#!/bin/sh\ntest -e passes\n', 0o755);
  write('passes', '');
  git('init', '-q');
  git('add', '-A');
  git('commit', '-qm', 'one');
});
afterEach(() => rmSync(root, { recursive: true }));

function write(path: string, text: string, mode = 0o644): void {
  mkdirSync(join(root, path, '..'), { recursive: true });
  writeFileSync(join(root, path), text, { mode });
}
const IDENTITY = { GIT_AUTHOR_NAME: 't', GIT_AUTHOR_EMAIL: 't@example.test' };
const env = { ...process.env, ...IDENTITY, GIT_COMMITTER_NAME: 't', GIT_COMMITTER_EMAIL: 't@example.test' };
const git = (...args: string[]) => execFileSync('git', args, { cwd: root, env, encoding: 'utf8' }).trim();
const release = (...args: string[]) =>
  spawnSync(process.execPath, [join(root, 'scripts', 'release.mjs'), ...args], { env, encoding: 'utf8' });

it('makes one commit and a tag with the version in both packages and in the changelog', () => {
  expect(release('1.1.0').stderr).not.toContain('Error');
  expect(git('show', '--format=%s', '--name-only', 'v1.1.0')).toMatch(/release: 1\.1\.0/);
  for (const path of ['package.json', 'web/package.json']) {
    expect(JSON.parse(readFileSync(join(root, path), 'utf8'))).toMatchObject({ version: '1.1.0' });
  }
  expect(git('show', 'HEAD:CHANGELOG.md')).toMatch(
    /## \[Unreleased\]\n\n## \[1\.1\.0\] - \d{4}-\d\d-\d\d\n\n### Added\n\n- Mailboxes of Microsoft\./,
  );
  expect(release('--check', 'v1.1.0').status).toBe(0);
  expect(release('--notes', 'v1.1.0').stdout).toBe('### Added\n\n- Mailboxes of Microsoft.\n');
});

it('tags nothing when the check fails', () => {
  rmSync(join(root, 'passes'));
  git('commit', '-qam', 'two');
  const { status, stderr } = release('1.1.0');
  expect({ status, stderr }).toEqual({ status: 1, stderr: expect.stringContaining('Nothing is committed') });
  expect(git('tag')).toBe('');
});

it.each([
  ['a version that is no version', () => ['1.1'], 'Usage'],
  ['changes that are not committed', () => (write('other', 'x'), ['1.1.0']), 'commit them first'],
  ['a version that is tagged', () => (git('tag', 'v1.0.0'), ['1.0.0']), 'tagged already'],
  ['a tag of another version', () => ['--check', 'v1.2.0'], 'package.json has version 1.0.0'],
  ['notes of a version without any', () => ['--notes', 'v1.2.0'], 'no section for v1.2.0'],
])('refuses %s', (_name, given, reason) => {
  const { status, stderr } = release(...given());
  expect({ status, stderr }).toEqual({ status: 1, stderr: expect.stringContaining(reason) });
});
