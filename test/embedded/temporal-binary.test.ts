import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { Report } from '../../src/embedded/report.ts';
import { findTemporal, TEMPORAL_CLI_VERSION } from '../../src/embedded/temporal-binary.ts';
import { listenOnFreePort } from '../helpers/servers/free-port.ts';

const platform = `${process.platform}_${process.arch === 'x64' ? 'amd64' : process.arch}`;

function fakeProgram(dir: string, server: string): string {
  mkdirSync(dir, { recursive: true });
  writeFileSync(join(dir, 'temporal'), `#!/bin/sh\necho "temporal version 9 (Server ${server}, UI 1)"\n`);
  chmodSync(join(dir, 'temporal'), 0o755);
  return join(dir, 'temporal');
}

describe('the temporal program', () => {
  let dir: string;
  let lines: string[];
  let server: Server;
  let port: number;
  let answers: Record<string, Buffer | string>;
  /** SHA-256 of the archive by platform */
  let sums: Record<string, string>;
  const report: Report = { line: (text) => void lines.push(text), during: (_what, work) => work(() => {}) };
  /** no PATH that could hold Go or Temporal; the system's tools are found by its default */
  const find = (more: Record<string, string> = {}) =>
    findTemporal({
      env: { HOME: dir, PATH: join(dir, 'path'), ...more },
      dataDir: join(dir, 'data'),
      report,
      downloads: { index: url(), sums },
    });
  const url = () => `http://127.0.0.1:${port}`;

  beforeAll(async () => {
    server = createServer((request, response) => {
      const answer = answers[new URL(request.url ?? '', 'http://x').pathname];
      response.statusCode = answer === undefined ? 404 : 200;
      response.end(answer);
    });
    port = await listenOnFreePort(server);
  });
  afterAll(() => new Promise((resolve) => server.close(resolve)));
  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), 'temporal-'));
    lines = [];
    answers = {};
    sums = {};
  });
  afterEach(() => rmSync(dir, { recursive: true }));

  function cacheFolder(): string {
    const cache = join(dir, '.cache', 'email-mailbox-api');
    const [name = '', ...others] = readdirSync(cache);
    expect([name, others]).toEqual([expect.stringMatching(`^temporal-${TEMPORAL_CLI_VERSION}-[0-9a-f]{8}$`), []]);
    return join(cache, name);
  }

  /** What the makers publish: an index that names the archive, and the archive, with the sum that is known of it. */
  function publish(): void {
    const path = fakeProgram(join(dir, 'made'), '1.32.0');
    execFileSync('tar', ['-czf', join(dir, 'a.tar.gz'), '-C', join(dir, 'made'), 'temporal']);
    const archive = readFileSync(join(dir, 'a.tar.gz'));
    sums = { [platform]: createHash('sha256').update(archive).digest('hex') };
    answers = {
      [`/cli/v${TEMPORAL_CLI_VERSION}`]: JSON.stringify({ archiveUrl: `${url()}/a.tar.gz`, fileToExtract: 'temporal' }),
      '/a.tar.gz': archive,
    };
    rmSync(path);
  }

  it('is taken from PATH, else from the data folder, else from where Go installs', async () => {
    const inGo = fakeProgram(join(dir, 'go', 'bin'), '1.32.0');
    expect(await find()).toBe(inGo);
    const inData = fakeProgram(join(dir, 'data', 'bin'), '1.32.0');
    expect(await find()).toBe(inData);
    const onPath = fakeProgram(join(dir, 'path'), '1.33.0');
    expect(await find()).toBe(onPath);
    expect(lines).toEqual([]);
  });

  it('is not used when its server is too old, with a line that says so', async () => {
    const old = fakeProgram(join(dir, 'path'), '1.31.2');
    const recent = fakeProgram(join(dir, 'data', 'bin'), '1.32.0');
    expect(await find()).toBe(recent);
    expect(lines).toEqual([`${old} is not used: its server 1.31 is older than 1.32`]);
  });

  it('is downloaded once and cached', async () => {
    publish();
    const path = await find();
    expect(path).toBe(join(cacheFolder(), 'temporal'));
    answers = {};
    expect(await find()).toBe(path);
    expect(lines).toEqual([]);
  });

  it('leaves the files of a concurrent download or build, and removes abandoned ones', async () => {
    publish();
    await find();
    const cache = cacheFolder();
    rmSync(join(cache, 'temporal'));
    for (const name of ['build-now', 'download-now', 'build-old']) mkdirSync(join(cache, name), { recursive: true });
    const old = new Date(Date.now() - 2 * 60 * 60_000);
    utimesSync(join(cache, 'build-old'), old, old);
    await find();
    expect(readdirSync(cache).toSorted()).toEqual(['build-now', 'download-now', 'temporal']);
  });

  it.each([
    ['its SHA-256 is not the published one', { [platform]: 'f'.repeat(64) }],
    [`no SHA-256 is known of the archive for ${platform.replace('_', ' ')}`, {}],
  ])('is not run where %s; each way that failed is one line with the next step', async (reason, known) => {
    publish();
    sums = known;
    const GO = { PATH: join(dir, 'path') };
    mkdirSync(join(dir, 'path'), { recursive: true });
    // a Go that cannot build, found before any real one
    writeFileSync(join(dir, 'path', 'go'), '#!/bin/sh\n[ "$1" = version ] && exit 0\necho "no network" >&2; exit 1\n');
    chmodSync(join(dir, 'path', 'go'), 0o755);
    await expect(find(GO)).rejects.toThrow(
      /^The Temporal server could not be built with Go \(no network\): install the Temporal CLI [^\n]+$/,
    );
    expect(lines).toEqual([`The Temporal server could not be downloaded (${reason}); building it with Go instead.`]);
  });
});
