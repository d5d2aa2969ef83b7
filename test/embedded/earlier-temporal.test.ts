import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { createSupervisor, type Part } from '../../src/embedded/supervise.ts';
import { embedTemporal } from '../../src/embedded/temporal.ts';
import { hasSearchAttributes } from '../../src/temporal/search-attributes.ts';
import { freePort } from '../helpers/servers/free-port.ts';
import { testTemporal } from '../helpers/servers/temporal.ts';

/** A database of the embedded Temporal that an earlier version made. */

let dir: string;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'earlier-temporal-'));
  await chmod(dir, 0o711);
});
afterAll(() => rm(dir, { recursive: true }));

async function run<T>(part: Part, work: () => Promise<T>): Promise<T> {
  const supervisor = createSupervisor({ logDir: dir, printLine: () => {} });
  try {
    await supervisor.start(part);
    return await work();
  } finally {
    await supervisor.stop();
  }
}

it('gets the search attributes that it lacks', async () => {
  const embed = async () =>
    embedTemporal({ binary: testTemporal().binary, port: await freePort(), dbFile: join(dir, 'temporal.db') });
  const earlier = await embed();
  const isGiven = (argument: string) => argument.startsWith('ResourceIds=');
  const args = earlier.part.args.filter((argument, index, all) => !isGiven(argument) && !isGiven(all[index + 1] ?? ''));
  const answers = async () => (await hasSearchAttributes(earlier.address, ['default'])) !== null;
  await run({ ...earlier.part, args, isReady: answers }, async () => {
    expect(await hasSearchAttributes(earlier.address, ['default'])).toBe(false);
  });
  const now = await embed();
  await run(now.part, async () => {
    expect(await hasSearchAttributes(now.address, ['default'])).toBe(true);
  });
}, 90_000);
