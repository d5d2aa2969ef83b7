import { existsSync } from 'node:fs';
import { chmod, mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { createSupervisor, type Supervisor } from '../../src/embedded/supervise.ts';
import { embedTemporal, explained } from '../../src/embedded/temporal.ts';
import { freePort } from '../helpers/servers/free-port.ts';
import { testTemporal } from '../helpers/servers/temporal.ts';

describe('the database of an embedded Temporal', () => {
  let dir: string;
  let dbFile: string;
  let supervisor: Supervisor;
  const isMaking = () => existsSync(`${dbFile}.making`);
  const embed = async () => embedTemporal({ binary: testTemporal().binary, port: await freePort(), dbFile });
  const start = async () => supervisor.start((await embed()).part);

  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), 'unfinished-temporal-'));
    await chmod(dir, 0o711);
    dbFile = join(dir, 'temporal.db');
    supervisor = createSupervisor({ logDir: dir, printLine: () => {} });
  });
  afterEach(async () => {
    await supervisor.stop();
    await rm(dir, { recursive: true, force: true, maxRetries: 5 });
  });

  it('is made from the beginning when the start that made it has not finished', async () => {
    // as a kill during its first statements leaves it
    await (await embed()).part.beforeStart?.();
    await writeFile(dbFile, '');
    await writeFile(`${dbFile}-wal`, 'half a statement');
    expect(isMaking()).toBe(true);
    await start();
    expect(isMaking()).toBe(false);
  }, 90_000);

  it('stays once it is complete', async () => {
    await start();
    await supervisor.stop();
    const { ino } = await stat(dbFile);
    supervisor = createSupervisor({ logDir: dir, printLine: () => {} });
    await start();
    expect({ ino: (await stat(dbFile)).ino, isMaking: isMaking() }).toEqual({ ino, isMaking: false });
  }, 90_000);

  it.each([
    ['lacks tables', ''],
    ['is damaged', 'no database at all '.repeat(1000)],
  ])(
    'stays, with a line that says what to do, when it %s for another reason',
    async (_, content) => {
      await writeFile(dbFile, content);
      const failure = explained(await start().catch((error: unknown) => error), dbFile);
      expect(failure).toMatchObject({
        name: 'StartFailure',
        message: expect.stringMatching(
          /^temporal exited: [^\n]* Move \S+temporal\.db\* away if this stays so: the workers start again what it held\.$/,
        ),
      });
      expect(existsSync(dbFile)).toBe(true);
    },
    90_000,
  );
});
