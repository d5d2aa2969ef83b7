import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import { PLAIN } from '../helpers/fakes/fake-imap.ts';
import type { Command } from '../helpers/fakes/fake-imap-wire.ts';
import { isLong } from '../helpers/runner/long.ts';
import { openSyncGround, type SyncGround } from '../helpers/product/watched-account.ts';
import type { ApiOperation } from './api-calls.ts';
import { EngineRun, type Mode } from './engine-run.ts';
import type { OutsideChange } from './other-program.ts';
import { Random } from './random.ts';

/**
 * Each write of the API meets each change that another mail program makes to the same message in the same moment: right
 * after the server has executed a command of the write, a little later, or when the call has just ended.
 */

const TRIES = isLong() ? 100 : 3;

const WRITES: ApiOperation[] = [
  'trash',
  'move',
  'read',
  'sentCopy',
  'createDraft',
  'updateDraft',
  'deleteDraft',
  'deleteFolder',
];
const CHANGES: OutsideChange[] = ['expunge', 'move', 'copy', 'flag'];
const MODES: [string, Mode][] = [
  ['IMAP4rev1 alone', { capabilities: 'IMAP4rev1' }],
  ['CONDSTORE and QRESYNC', { capabilities: `${PLAIN} MOVE CONDSTORE QRESYNC` }],
];
const chosen = isLong() ? MODES : MODES.slice(1);

let ground: SyncGround;

beforeAll(async () => {
  ground = await openSyncGround();
});
afterAll(() => ground.close());

/** The folder in which the message of this command is afterwards; undefined for a command that changes no message. */
function folderAfter(command: Command, selected: string | undefined): string | undefined {
  if (/^UID (MOVE|COPY)$/.test(command.name)) return String(command.args[1]);
  if (command.name === 'APPEND') return String(command.args[0]);
  return /^UID STORE$/.test(command.name) ? selected : undefined;
}

/** Makes `tries` calls of one kind, each met by one change; returns what the store has wrong afterwards. */
async function meet(mode: Mode, write: ApiOperation, change: OutsideChange): Promise<string[]> {
  const run = new EngineRun(ground, mode, 1);
  const random = new Random(TRIES);
  let isArmed = false;
  try {
    await run.connect();
    run.server.script.command = (command, session) => {
      const path = isArmed ? folderAfter(command, session.selected?.path) : undefined;
      if (path === undefined) return false;
      isArmed = false;
      session.answer(command);
      const waitMs = random.below(3) * random.below(8);
      if (waitMs === 0) run.other.actOnNewest(change, path);
      else setTimeout(() => run.other.actOnNewest(change, path), waitMs);
      return true;
    };
    for (let tried = 0; tried < TRIES; tried++) {
      await prepare(run, write);
      const call = await run.calls.of(write);
      isArmed = true;
      if (call) run.start(call);
      await run.callsEnded();
    }
    const { differences, log } = await run.settle();
    if (differences.length > 0) console.error(log.slice(-30).join('\n'));
    return differences;
  } finally {
    await run.close();
  }
}

/** Makes what the next call needs: mail that is stored, a draft, or a folder with mail. */
async function prepare(run: EngineRun, write: ApiOperation): Promise<void> {
  run.other.arrive('INBOX');
  if (/(update|delete)Draft/.test(write)) await create(run, 'createDraft');
  if (write === 'deleteFolder') {
    await create(run, 'createFolder');
    const made = [...run.server.folders.keys()].find((path) => /^f\d+$/.test(path));
    if (made) run.other.arrive(made);
  }
  run.server.tell();
  await sleep(30);
}

async function create(run: EngineRun, kind: ApiOperation): Promise<void> {
  const call = await run.calls.of(kind);
  if (call) run.start(call);
  await run.callsEnded();
}

describe.each(chosen)('with %s', (_, mode) => {
  describe.each(WRITES)('%s', (write) => {
    it.each(CHANGES)(
      'meets another program that makes a change of the kind %s',
      async (change) => {
        expect(await meet(mode, write, change)).toEqual([]);
      },
      30_000 + TRIES * 2_000,
    );
  });
});
