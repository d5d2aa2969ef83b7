import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from '@jest/globals';

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'record-release-'));
  cpSync(join(import.meta.dirname, '..', '..', 'scripts', 'record-release.mjs'), join(root, 'scripts', 'record.mjs'));
  writeFileSync(join(root, 'package.json'), JSON.stringify({ version: '1.2.0' }));
  writeFileSync(join(root, 'CHANGELOG.md'), '# Changelog\n\n## [Unreleased]\n\n## [1.1.0] - 2030-01-01\n');
  mkdirSync(join(root, 'test', 'histories', '1.2.0'), { recursive: true });
  writeFileSync(history(), '{}');
});
afterEach(() => rmSync(root, { recursive: true }));

const history = () => join(root, 'test', 'histories', '1.2.0', 'account.json');
const record = () =>
  spawnSync(process.execPath, [join(root, 'scripts', 'record.mjs')], { encoding: 'utf8', timeout: 20_000 });

it('records the histories of a version again until it is released', () => {
  record();
  expect(existsSync(history())).toBe(false);
});

it('refuses to delete the histories of a version that has a heading in the changelog', () => {
  writeFileSync(join(root, 'CHANGELOG.md'), '# Changelog\n\n## [Unreleased]\n\n## [1.2.0] - 2030-01-01\n');
  const { status, stderr } = record();
  expect({ status, stderr }).toEqual({ status: 1, stderr: expect.stringContaining('1.2.0 is released') });
  expect(existsSync(history())).toBe(true);
});

it('refuses to delete the histories of a version that is tagged', () => {
  const git = (...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=t', '-c', 'user.email=t@example.test', ...args], { cwd: root });
  git('init', '-q');
  git('add', '-A');
  git('commit', '-qm', 'one');
  git('tag', 'v1.2.0');
  expect(record().status).toBe(1);
  expect(existsSync(history())).toBe(true);
});
