import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { deleteApiKey } from '../../../src/db/access/api-keys.ts';
import {
  choosePassword,
  invitePerson,
  replacePassword,
  resetPassword,
  signInWith,
} from '../../../src/db/access/invited-persons.ts';
import { waitFor } from '../../helpers/assert/wait.ts';
import { type TestDatabase, testDatabase } from '../../helpers/servers/postgres.ts';

let test: TestDatabase;
beforeAll(async () => {
  test = await testDatabase();
});
afterAll(() => test.drop());

/** Someone with a password and a session. */
async function member(): Promise<string> {
  const { db } = test.database;
  const invited = await invitePerson(db, { name: 'Ada', email: `ada-${Math.random()}@example.test`, role: 'viewer' });
  if (!invited) throw new Error('the address is taken');
  await choosePassword(db, invited.token, 'first');
  await signInWith(db, { id: invited.id, password: 'first' });
  return invited.id;
}

const works = {
  removal: (id: string) => test.database.db.transaction((tx) => deleteApiKey(tx, id)),
  'sign-in': (id: string) => signInWith(test.database.db, { id, password: 'first' }),
  'change of the password': (id: string) =>
    replacePassword(test.database.db, { id, before: 'first', after: 'second' }, undefined),
  reset: (id: string) => test.database.db.transaction((tx) => resetPassword(tx, id)),
};
type Work = keyof typeof works;

describe('two calls about one person at the same moment', () => {
  const cases: [Work, Work, string][] = [
    ['sign-in', 'removal', 'select from persons where id = $1 for update'],
    ['removal', 'change of the password', 'select from sessions where api_key_id = $1 for update'],
    ['removal', 'reset', 'select from sessions where api_key_id = $1 for update'],
  ];
  it.each(cases)('do not deadlock: %s, then %s', async (first, second, held) => {
    const id = await member();
    const { pool } = test.database;
    const other = await pool.connect();
    const blocked = async () => {
      const { rowCount } = await pool.query(
        `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
      );
      return rowCount;
    };
    // each stops half-way, where it needs this row
    await other.query('begin');
    await other.query(held, [id]);
    const begun = [works[first](id)] as Promise<unknown>[];
    await waitFor(async () => (await blocked()) === 1, { what: first });
    begun.push(works[second](id));
    await waitFor(async () => (await blocked()) === 2, { what: second });
    await other.query('commit');
    other.release();
    const ended = await Promise.allSettled(begun);
    expect(ended.filter(({ status }) => status === 'rejected')).toEqual([]);
    expect(await works['sign-in'](id)).toBeUndefined();
  });
});
