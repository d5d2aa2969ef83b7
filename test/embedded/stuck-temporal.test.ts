import { randomInt } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from '@jest/globals';
import { Client, Connection } from '@temporalio/client';
import { createSupervisor } from '../../src/embedded/supervise.ts';
import { embedTemporal } from '../../src/embedded/temporal.ts';
import { freePort } from '../helpers/servers/free-port.ts';
import { testTemporal } from '../helpers/servers/temporal.ts';
import { waitFor } from '../helpers/assert/wait.ts';

/*
 * Programs that are killed, or stop waiting, cancel their calls. A call that was cancelled while Temporal read from
 * SQLite could make every later statement fail in servers before 1.31; thousands of them did so within seconds.
 */

const STORM_MS = 8_000;
const CALLERS = 16;
const WORKFLOWS = Array.from({ length: 20 }, (_, number) => `waits-${number}`);

it('Temporal recovers soon after calls were cancelled during its reads', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'stuck-temporal-'));
  const supervisor = createSupervisor({ logDir: dir, printLine: () => {} });
  const { binary } = testTemporal();
  const { address, part } = embedTemporal({ binary, port: await freePort(), dbFile: join(dir, 'temporal.db') });
  try {
    await supervisor.start(part);
    const connection = await Connection.connect({ address });
    const client = new Client({ connection });
    const start = (workflowId: string) => client.workflow.start('none', { taskQueue: 'none', workflowId });
    await Promise.all(WORKFLOWS.map(start));
    const read = () => client.workflow.getHandle(WORKFLOWS[randomInt(WORKFLOWS.length)]!).describe();
    const until = Date.now() + STORM_MS;
    const cancelling = async () => {
      while (Date.now() < until) {
        const call = new AbortController();
        const reading = client.withAbortSignal(call.signal, read).catch(() => {});
        await sleep(Math.random() * 6);
        call.abort();
        await reading;
      }
    };
    await Promise.all(Array.from({ length: CALLERS }, cancelling));
    const readInTime = () => client.withDeadline(Date.now() + 3_000, read).then(Boolean, () => false);
    await waitFor(readInTime, { timeoutMs: 45_000, everyMs: 500, what: 'Temporal' });
    await start('one more');
    expect(await Promise.all(WORKFLOWS.map((id) => client.workflow.getHandle(id).describe()))).toHaveLength(20);
    await connection.close();
  } finally {
    await supervisor.stop();
    rmSync(dir, { recursive: true });
  }
}, 90_000);
