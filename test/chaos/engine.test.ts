import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { PLAIN } from '../helpers/fakes/fake-imap.ts';
import { isLong } from '../helpers/runner/long.ts';
import { openSyncGround, type SyncGround } from '../helpers/product/watched-account.ts';
import { type Mode, runEngine } from './engine-run.ts';

/**
 * The store equals the mailbox, whatever other mail programs do, the API is asked to do and is killed. To replay:
 * CHAOS_SEED=… CHAOS_OPERATIONS=… CHAOS_MODE=… npm test -- test/chaos/engine.test.ts
 */

const READS = /^(SELECT|EXAMINE|STATUS|(UID )?FETCH|UID SEARCH)$/;
const COMMANDS = /^(SELECT|EXAMINE|STATUS|(UID )?FETCH|UID (SEARCH|STORE|COPY|MOVE|EXPUNGE)|APPEND)$/;

const MODES: Record<string, Mode> = {
  'IMAP4rev1 alone': { capabilities: 'IMAP4rev1' },
  'UIDPLUS and MOVE': { capabilities: `${PLAIN} MOVE` },
  'CONDSTORE and QRESYNC': { capabilities: `${PLAIN} MOVE CONDSTORE QRESYNC` },
  Gmail: { gmail: true },
  'a server that numbers messages anew': { capabilities: `${PLAIN} MOVE`, weights: { renumber: 3 } },
  'a server that hangs up over 3 connections': { capabilities: `${PLAIN} MOVE`, hangsUpOver: 3 },
  'a server that tells nothing in IDLE': { capabilities: `${PLAIN} MOVE CONDSTORE`, lazyIdle: true },
  'a server that announces mail early': { capabilities: `${PLAIN} MOVE`, announcesMs: 25 },
  'a server that loses dates': { losesDates: true },
  'a server that refuses commands': { capabilities: `${PLAIN} MOVE`, refuses: COMMANDS },
  'a server that processes 5 messages of a command': {
    capabilities: `${PLAIN} MOVE ENABLE CONDSTORE MESSAGELIMIT=5`,
    limit: { most: 5, says: true, from: 'highest' },
  },
  'a server that says late that it processes 5 messages': {
    capabilities: 'IMAP4rev1',
    limit: { most: 5, says: true, from: 'lowest' },
  },
  'an old server that refuses to show messages': { capabilities: 'IMAP4rev1', refuses: READS },
};

const { CHAOS_SEED, CHAOS_OPERATIONS, CHAOS_MODE, CHAOS_SEEDS } = process.env;
const operations = Number(CHAOS_OPERATIONS ?? (isLong() ? 2_000 : 120));
const first = Number(CHAOS_SEED ?? 1);
const seeds = Number(CHAOS_SEEDS ?? (CHAOS_SEED === undefined && isLong() ? 20 : 1));
/** the short form takes those that differ most */
const SHORT = ['IMAP4rev1 alone', 'CONDSTORE and QRESYNC', 'Gmail'];
const isChosen = (name: string) =>
  CHAOS_MODE === undefined ? isLong() || CHAOS_SEED !== undefined || SHORT.includes(name) : name.includes(CHAOS_MODE);

let ground: SyncGround;

beforeAll(async () => {
  ground = await openSyncGround();
});
afterAll(() => ground.close());

const modes = Object.entries(MODES).filter(([name]) => isChosen(name));

describe.each(modes)('with %s', (name, mode) => {
  it.each(Array.from({ length: seeds }, (_, index) => first + index))(
    'the store equals the mailbox, seed %i',
    async (seed) => {
      const { differences, log } = await runEngine(ground, mode, seed, operations);
      if (differences.length > 0 || process.env.CHAOS_LOG) {
        const replay = `CHAOS_SEED=${seed} CHAOS_OPERATIONS=${operations} CHAOS_MODE='${name}'`;
        const last = process.env.CHAOS_LOG ? log : log.slice(-20);
        console.error(`${replay} npm test -- test/chaos/engine.test.ts\n${last.join('\n')}`);
      }
      expect(differences).toEqual([]);
    },
    30_000 + operations * 300,
  );
});
