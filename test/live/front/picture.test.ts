import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { projectRoot } from '../../../src/runtime/project-root.ts';
import { startBrowser } from '../../helpers/product/browser.ts';
import { mailServers } from '../../helpers/servers/mail-servers.ts';

/** The picture of README.md, which scripts/docs/picture.mjs records for each release. */

let dir: string;
beforeAll(async () => {
  // the script starts its own servers; these two say that mail servers and a browser can run here
  mailServers();
  await (await startBrowser()).close();
  dir = await mkdtemp(join(tmpdir(), 'recorded-'));
});
afterAll(() => rm(dir, { recursive: true, force: true }));

it('is recorded from the product: an animation of five frames, below 1.5 MB', async () => {
  const file = join(dir, 'picture.gif');
  const script = join(projectRoot(), 'scripts/docs/picture.mjs');
  await promisify(execFile)(process.execPath, [script, file], { timeout: 240_000 });
  const [recorded, committed] = await Promise.all([file, join(projectRoot(), 'docs/images/first-mail.gif')].map(read));
  expect(recorded).toMatchObject({ header: 'GIF89a', width: 1920, height: 1080, frames: 5 });
  expect(committed).toMatchObject({ header: 'GIF89a', width: 1920, height: 1080, frames: 5 });
  expect(Math.max(recorded?.bytes ?? 0, committed?.bytes ?? 0)).toBeLessThan(1_500_000);
}, 300_000);

async function read(path: string) {
  const bytes = await readFile(path);
  // a graphic control extension of 4 bytes begins each frame
  const frames = bytes.toString('latin1').match(/\x21\xf9\x04[^]{4}\x00/g)?.length;
  const [width, height] = [bytes.readUInt16LE(6), bytes.readUInt16LE(8)];
  return { header: bytes.toString('latin1', 0, 6), width, height, frames, bytes: bytes.length };
}
