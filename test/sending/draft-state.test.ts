import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { eq } from 'drizzle-orm';
import { drafts } from '../../src/db/schema/index.ts';
import { newId } from '../../src/new-id.ts';
import {
  type DraftState,
  draftsDeletedWithEmails,
  emailsEnteredDrafts,
  emailsLeftDrafts,
  giveUpDraft,
  markDraftDeleted,
  markDraftSent,
  markDraftSuperseded,
  recordDraft,
  releaseReservation,
  reserveDraft,
} from '../../src/outgoing/draft-state.ts';
import { testDatabase, type TestDatabase } from '../helpers/servers/postgres.ts';
import { storeEmail } from '../helpers/assert/rows.ts';
import { storeAccount } from '../helpers/product/stored-account.ts';

const STATES: DraftState[] = ['saving', 'active', 'superseded', 'sent', 'deleted', 'failed'];

let test: TestDatabase;
let accountId: string;
beforeAll(async () => {
  test = await testDatabase();
});
afterAll(() => test.drop());
beforeEach(async () => {
  accountId = await storeAccount(test.database);
});

async function store(state: DraftState, more: Partial<typeof drafts.$inferInsert> = {}): Promise<string> {
  const id = newId('draft');
  const emailId = state === 'active' ? newId('email') : null;
  await test.database.db.insert(drafts).values({ id, accountId, emailId, state, createdAt: new Date(), ...more });
  return id;
}
async function load(id: string) {
  const [row] = await test.database.db.select().from(drafts).where(eq(drafts.id, id));
  if (!row) throw new Error('no such draft');
  return row;
}

describe('the state of a draft', () => {
  const own = () => ({ accountId, inputKey: null, metadata: null, trackingId: null, tracking: null });
  const tx = <T>(work: (tx: Parameters<typeof emailsEnteredDrafts>[0]) => Promise<T>) =>
    test.database.db.transaction(work);

  it.each<[string, (id: string) => Promise<unknown>, Partial<Record<DraftState, DraftState>>]>([
    ['recordDraft', (id) => recordDraft(test.database.db, { ...own(), id }), { failed: 'saving' }],
    ['giveUpDraft', (id) => giveUpDraft(test.database.db, id), { saving: 'failed' }],
    ['markDraftSuperseded', (id) => markDraftSuperseded(test.database.db, id, 'drf_x'), { active: 'superseded' }],
    ['markDraftSent', (id) => markDraftSent(test.database.db, id), { active: 'sent' }],
    ['markDraftDeleted', (id) => markDraftDeleted(test.database.db, id), { active: 'deleted' }],
    [
      'emailsEnteredDrafts',
      async (draftId) => {
        const { id: emailId } = await storeEmail(test.database, accountId);
        await tx((t) => emailsEnteredDrafts(t, [{ draftId, emailId }]));
      },
      { saving: 'active', failed: 'active' },
    ],
    ['emailsLeftDrafts', (id) => tx((t) => emailsLeftDrafts(t, [id], { sent: false })), { active: 'deleted' }],
    ['emailsLeftDrafts, sent', (id) => tx((t) => emailsLeftDrafts(t, [id], { sent: true })), { active: 'sent' }],
    [
      'draftsDeletedWithEmails',
      async (id) => {
        const emailId = newId('email');
        await test.database.db.update(drafts).set({ emailId }).where(eq(drafts.id, id));
        await tx((t) => draftsDeletedWithEmails(t, [emailId]));
      },
      { active: 'deleted' },
    ],
  ])('%s', async (_name, transition, next) => {
    for (const state of STATES) {
      const id = await store(state);
      await transition(id);
      expect([state, (await load(id)).state]).toEqual([state, next[state] ?? state]);
    }
  });

  it.each(['superseded', 'sent'] as const)('stays %s when the email leaves Drafts later', async (state) => {
    const [moved, deleted] = [await store(state, { emailId: 'email_a' }), await store(state, { emailId: 'email_b' })];
    await tx((t) => emailsLeftDrafts(t, [moved], { sent: false }));
    await tx((t) => draftsDeletedWithEmails(t, ['email_b']));
    expect(await load(moved)).toMatchObject({ state, emailId: null });
    expect(await load(deleted)).toMatchObject({ state, emailId: null });
  });
});

describe('a reservation', () => {
  const reserve = (id: string, by: string) => test.database.db.transaction((tx) => reserveDraft(tx, id, by));

  it('belongs to one save, and ends with it', async () => {
    const { db } = test.database;
    const [draft, first, second] = [await store('active'), await store('saving'), await store('saving')];
    expect(await reserve(draft, first)).toBe(first);
    expect(await reserve(draft, second)).toBe(first);
    await giveUpDraft(db, first);
    expect((await load(draft)).heldBy).toBeNull();
    expect(await reserve(draft, second)).toBe(second);
    await releaseReservation(db, second);
    expect(await reserve(draft, first)).toBe(first);
  });

  it('of a save that died expires, also when the same save is requested again later', async () => {
    const long = new Date(Date.now() - 3_600_000);
    const [draft, other] = [await store('active'), await store('saving')];
    const died = await store('saving', { createdAt: long, updatedAt: long });
    expect(await reserve(draft, died)).toBe(died);
    expect(await reserve(draft, other)).toBe(other);
    await releaseReservation(test.database.db, other);
    const again = await store('failed', { createdAt: long, updatedAt: long });
    const given = { accountId, inputKey: null, metadata: null, trackingId: null, tracking: null };
    await recordDraft(test.database.db, { ...given, id: again });
    expect(await reserve(draft, again)).toBe(again);
    expect(await reserve(draft, other)).toBe(again);
  });

  it('of a saved draft ends with the one that it replaces, which cannot be sent from then on', async () => {
    const [previous, saving] = [await store('active'), await store('saving')];
    const [other, givenUp] = [await store('active'), await store('saving')];
    for (const [id, by] of [
      [previous, saving],
      [other, givenUp],
    ] as const)
      expect(await reserve(id, by)).toBe(by);
    await giveUpDraft(test.database.db, givenUp);
    const entered = await Promise.all(
      [saving, givenUp].map(async (draftId) => ({ draftId, emailId: (await storeEmail(test.database, accountId)).id })),
    );
    await test.database.db.transaction((tx) => emailsEnteredDrafts(tx, entered));
    expect(await load(previous)).toMatchObject({ state: 'superseded', supersededBy: saving, heldBy: null });
    expect(await load(other)).toMatchObject({ state: 'active', supersededBy: null });
    expect(await reserve(previous, 'email_x')).toBeUndefined();
  });

  it('is refused where the draft is not active', async () => {
    for (const state of STATES.filter((one) => one !== 'active')) {
      expect(await reserve(await store(state), 'drf_x')).toBeUndefined();
    }
  });
});
