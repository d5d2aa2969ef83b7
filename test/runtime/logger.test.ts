import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, openSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate, setTimeout } from 'node:timers/promises';
import { Writable } from 'node:stream';
import { afterAll, describe, expect, it } from '@jest/globals';
import { createLogger, gatherLines } from '../../src/runtime/logger.ts';
import { builtModule } from '../helpers/product/built.ts';
import { waitFor } from '../helpers/assert/wait.ts';

function logged(write: (logger: ReturnType<typeof createLogger>) => void): string {
  const lines: string[] = [];
  const sink = new Writable({
    write(chunk: Buffer, _encoding, done) {
      lines.push(chunk.toString());
      done();
    },
  });
  write(createLogger('info', 'test', sink));
  return lines.join('');
}

describe('the logger', () => {
  it('writes JSON lines with time, level and name', () => {
    const line = JSON.parse(logged((logger) => logger.info({ accountId: 'acc_1' }, 'connected')));
    expect(line).toMatchObject({ level: 'info', name: 'test', accountId: 'acc_1', msg: 'connected' });
    expect(new Date(line.time).getTime()).toBeGreaterThan(0);
  });

  it('is quiet below its level', () => {
    expect(logged((logger) => logger.debug('not logged'))).toBe('');
  });

  it.each([
    new Error('Failed query: insert into emails values ($1)\nparams: canary'),
    new Error('invalid input syntax for type json: "canary"'),
    new Error('550 5.1.1 <canary@example.com>: Recipient address rejected'),
    new Error('no mailbox canary@example.com'),
    new Error("unknown word 'canary'"),
    new Error('first line\nSubject: canary'),
    new Error('outer', { cause: new Error('Failed query: canary') }),
    Object.assign(new Error('command failed'), { responseText: 'canary', params: ['canary'] }),
    Object.assign(new Error('Invalid login: 535 5.7.8 canary'), { responseCode: 535, response: '535 5.7.8 canary' }),
    new Error('sending failed', { cause: Object.assign(new Error('canary'), { response: 'canary' }) }),
    { message: '"canary"', name: 'Strange' },
    'canary',
  ])('keeps what an error quotes to itself (%#)', (err) => {
    const text = logged((logger) => logger.error({ err }, 'failed'));
    expect(text).toContain('failed');
    expect(text).not.toContain('canary');
  });

  it('writes type, code, frames and cause of an error', () => {
    const cause = Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:5432'), { code: 'ECONNREFUSED' });
    const { err } = JSON.parse(
      logged((logger) => logger.error({ err: new TypeError('no such thing', { cause }) }, 'x')),
    );
    expect(err).toMatchObject({
      type: 'TypeError',
      message: 'no such thing',
      cause: { type: 'Error', code: 'ECONNREFUSED', message: 'connect ECONNREFUSED 127.0.0.1:5432' },
    });
    expect(err.stack).toMatch(/logger\.test/);
    expect(err.stack).not.toMatch(/no such thing/);
  });

  it('hides values of secret keys at every level', () => {
    const password = 'canary';
    const text = logged((logger) =>
      logger.info({ password, imap: { password }, a: { b: { subject: 'canary' } } }, 'x'),
    );
    expect(text).not.toContain('canary');
  });
});

const built = builtModule('runtime/logger');
/** Arguments of Node for a script that has `createLogger`. */
const running = (script: string): string[] => [
  ...['--input-type=module', '-e'],
  `import { createLogger } from ${JSON.stringify(built)};\n${script}`,
];

describe('gathered lines', () => {
  const dir = mkdtempSync(join(tmpdir(), 'logger-'));
  afterAll(() => rmSync(dir, { recursive: true }));
  const messagesIn = (path: string) =>
    readFileSync(path, 'utf8')
      .split('\n')
      .filter(Boolean)
      .map((line) => (JSON.parse(line) as { msg: string }).msg);

  it('are written soon, and immediately with a warning or an error', async () => {
    const path = join(dir, 'soon.log');
    const logger = createLogger('info', 'test', gatherLines(openSync(path, 'a')));
    logger.info('first');
    await waitFor(async () => messagesIn(path).length === 1);
    for (const log of [() => logger.child({ part: 'a' }).warn('second'), () => logger.error('third')]) {
      const before = messagesIn(path);
      // whose timer would write them much later
      logger.info('another');
      const began = performance.now();
      log();
      while (messagesIn(path).length < before.length + 2) await setImmediate();
      expect(performance.now() - began).toBeLessThan(40);
    }
    expect(messagesIn(path)).toEqual(['first', 'another', 'second', 'another', 'third']);
  });

  it('do not block the process without a reader, and are read later', async () => {
    const child = spawn(
      process.execPath,
      running(`
      const logger = createLogger('info', 'test');
      // more than a pipe holds
      for (let n = 0; n < 5_000; n++) logger.info({ n }, 'a line of a hundred characters or so');
      let turns = 0;
      setInterval(() => process.stderr.write(\`turn \${++turns}\\n\`), 20);
      process.on('SIGTERM', () => process.exit(7));`),
    );
    const ended = once(child, 'exit', { signal: AbortSignal.timeout(15_000) });
    ended.catch(() => {});
    try {
      let turns = '';
      child.stderr.on('data', (chunk: Buffer) => (turns += chunk.toString()));
      await waitFor(async () => turns.includes('turn 20'));
      let text = '';
      child.stdout.on('data', (chunk: Buffer) => (text += chunk.toString()));
      await waitFor(async () => text.trim().endsWith('}') && text.includes('"n":4999'));
      expect(
        text
          .split('\n')
          .filter(Boolean)
          .map((line) => (JSON.parse(line) as { n: number }).n),
      ).toEqual(Array.from({ length: 5_000 }, (_, n) => n));
      child.kill('SIGTERM');
      expect(await ended).toEqual([7, null]);
    } finally {
      child.kill('SIGKILL');
    }
  });

  it('do not block the process after the reader has exited', async () => {
    const child = spawn(
      process.execPath,
      running(`
      const logger = createLogger('info', 'test');
      setInterval(() => logger.info('a line'), 10);
      setTimeout(() => process.exit(7), 1_000);`),
    );
    child.stdout.once('data', () => child.stdout.destroy());
    const ended = once(child, 'exit', { signal: AbortSignal.timeout(8_000) });
    try {
      expect(await ended).toEqual([7, null]);
    } finally {
      child.kill('SIGKILL');
    }
  });

  const hasFullDevice = existsSync('/dev/full');

  (hasFullDevice ? it : it.skip)(
    'are dropped on a full disk, while the process continues and ends at a signal',
    async () => {
      const child = spawn(
        process.execPath,
        running(`
        const logger = createLogger('info', 'test');
        let turns = 0;
        setInterval(() => {
          logger[turns % 2 ? 'info' : 'error']('a line');
          process.stderr.write(\`turn \${++turns}\\n\`);
        }, 20);
        process.on('SIGTERM', () => process.exit(7));`),
        { stdio: ['ignore', openSync('/dev/full', 'a'), 'pipe'] },
      );
      const ended = once(child, 'exit', { signal: AbortSignal.timeout(8_000) });
      ended.catch(() => {});
      try {
        let turns = '';
        child.stderr?.on('data', (chunk: Buffer) => (turns += chunk.toString()));
        await waitFor(async () => turns.includes('turn 20'));
        child.kill('SIGTERM');
        expect(await ended).toEqual([7, null]);
      } finally {
        child.kill('SIGKILL');
      }
    },
  );

  (hasFullDevice ? it : it.skip)('do not stop a process whose disk is found full when it exits', () => {
    for (const end of ['', 'process.exit(3);']) {
      const { status } = spawnSync(
        process.execPath,
        running(`
          createLogger('info', 'test').info('the last one');
          ${end}`),
        { stdio: ['ignore', openSync('/dev/full', 'a'), 'ignore'], timeout: 8_000 },
      );
      expect(status).toBe(end === '' ? 0 : 3);
    }
  });

  // a limit on the size of files refuses writes as a full disk does
  const hasLimits = spawnSync('prlimit', ['--version']).status === 0;

  (hasLimits ? it : it.skip)('are written again when the disk has space, each on a line', async () => {
    const path = join(dir, 'limited.log');
    const child = spawn(
      'prlimit',
      [
        '--fsize=1000:unlimited',
        process.execPath,
        ...running(`
        const logger = createLogger('info', 'test');
        let turns = 0;
        setInterval(() => logger.error({ turn: ++turns }, 'a line'), 10);`),
      ],
      { stdio: ['ignore', openSync(path, 'a'), 'inherit'] },
    );
    const lines = () => readFileSync(path, 'utf8').split('\n');
    const turnOf = (line = '') => /"turn":(\d+),.*\}$/.exec(line)?.[1];
    try {
      await waitFor(async () => statSync(path).size === 1000);
      const before = lines();
      // half of the line is there
      expect(turnOf(before.at(-1))).toBeUndefined();
      await setTimeout(100);
      expect(spawnSync('prlimit', ['--pid', `${child.pid}`, '--fsize=unlimited:unlimited']).status).toBe(0);
      await waitFor(async () => lines().length > before.length + 3);
      const after = lines()
        .slice(before.length, -1)
        .map((line) => Number(turnOf(line)));
      expect(after).not.toContain(NaN);
      // lines were dropped
      expect(after[0]).toBeGreaterThan(before.length + 3);
    } finally {
      child.kill('SIGKILL');
    }
  });

  it('are written when the process exits, also by an uncaught error', () => {
    for (const end of ['', 'process.exit(3);', 'throw new Error("not caught");']) {
      const { stdout } = spawnSync(
        process.execPath,
        running(`createLogger('info', 'test').info('the last one'); ${end}`),
      );
      expect(stdout.toString()).toContain('the last one');
    }
  });
});
