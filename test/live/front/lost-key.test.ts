import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { projectRoot } from '../../../src/runtime/project-root.ts';
import { type Started, start } from '../../helpers/product/start.ts';
import { freePort } from '../../helpers/servers/free-port.ts';

const newKey = () => randomBytes(32).toString('base64');

describe('npm start with another ENCRYPTION_KEY', () => {
  let dir: string;
  let settings: Record<string, string>;
  let running: Started | undefined;
  const [first, second] = [newKey(), newKey()];

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'lost-key-'));
    // as root, Postgres runs as a user that must be able to enter
    await chmod(dir, 0o711);
    settings = { PORT: String(await freePort()), TEMPORAL_UI_PORT: String(await freePort()) };
  });
  const stop = async () => {
    running?.child.kill('SIGTERM');
    await running?.ended();
    running = undefined;
  };
  afterAll(async () => {
    await stop();
    await rm(dir, { recursive: true, force: true });
  });
  const begin = (keys: Record<string, string>) => (running = start(dir, { ...settings, ...keys }, 'dist/start.js'));

  it('refuses while the previous one is missing, and rotates it where it is given', async () => {
    await begin({ ENCRYPTION_KEY: first }).ready();
    const apiKey = (await readFile(join(dir, 'bootstrap-api-key'), 'utf8')).trim();
    const made = await fetch(`http://127.0.0.1:${settings['PORT']}/api/v1/webhooks/endpoints`, {
      method: 'POST',
      headers: { 'X-API-KEY': apiKey, 'Content-Type': 'application/json' },
      body: JSON.stringify({ url: 'http://127.0.0.1:9/hook', trigger_events: ['email.new'] }),
    });
    expect(made.ok).toBe(true);
    await stop();

    const refused = begin({ ENCRYPTION_KEY: second });
    expect(await refused.ended()).toBe(1);
    const lines = refused.output().trim().split('\n');
    expect(lines.at(-1)).toMatch(/ENCRYPTION_KEY does not open \d+ stored secrets: set the key that was used before/);

    const keys = { ENCRYPTION_KEY: second, ENCRYPTION_KEY_PREVIOUS: first };
    await begin(keys).ready();
    const rotate = (given: Record<string, string>) =>
      new Promise<string>((resolve) => {
        const script = join(projectRoot(), 'dist', 'rotate-key.js');
        const env = { PATH: process.env['PATH'], DATA_DIR: dir, ...given };
        execFile(process.execPath, [script], { env }, (_error, stdout, stderr) => resolve(stdout + stderr));
      });
    expect(await rotate({ ENCRYPTION_KEY: newKey(), ENCRYPTION_KEY_PREVIOUS: second })).toBe(
      'ENCRYPTION_KEY is not the key that the workers last started with: restart them with it first\n',
    );
    const output = await rotate(keys);
    expect(output).toMatch(/"unreadable": 0[^]*ENCRYPTION_KEY_PREVIOUS is still needed: run this again later/);
  }, 240_000);
});
