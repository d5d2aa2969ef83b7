import { expect, it } from '@jest/globals';
import { eq } from 'drizzle-orm';
import { parsePieces } from '../../src/db/driver/json-text.ts';
import { listEmails } from '../../src/db/queries/mail/emails.ts';
import { emails, emailSearch } from '../../src/db/schema/index.ts';
import { reparseEmail } from '../../src/mailbox/reparse/reparse.ts';
import { syncMailbox } from '../../src/mailbox/sync-pass.ts';
import { newId } from '../../src/new-id.ts';
import { isCopyIngested, markSent, markSubmitting, recordSend } from '../../src/outgoing/send-state.ts';
import { findSends } from '../../src/outgoing/sent-mail.ts';
import { mailText } from '../helpers/product/mail-text.ts';
import { storedEvents } from '../helpers/product/stored-events.ts';
import { engineTests } from '../helpers/product/engine.ts';

/** The copy of a message that the API sent, in Sent. */

const { ground, start } = engineTests();

it('a copy that comes after the first one was deleted is another email', async () => {
  const { server, ctx } = await start({ folders: { Sent: ['\\Sent'] } });
  const { db, account } = ctx;
  const id = newId('email');
  const messageId = `<${id}@example.test>`;
  const none = { draftId: null, metadata: null, trackingId: null, tracking: null, inputKey: null };
  await recordSend(db, { id, accountId: account.id, apiKeyId: newId('apiKey'), apiKeyName: 'a key', ...none });
  await markSubmitting(db, id, { messageId, storageKey: 'a/key.eml', result: { rejected: [] } });
  await markSent(db, id, { rejected: [] });
  await syncMailbox(ctx, { freshSession: true });

  const copy = mailText({ subject: 'sent', messageId });
  const uid = server.append('Sent', copy, { flags: ['\\Seen'] });
  await syncMailbox(ctx, {});
  server.remove('Sent', uid);
  await syncMailbox(ctx, {});
  // put back by another program, or appended by an attempt that did not know of the first copy
  server.append('Sent', copy, { flags: ['\\Seen'] });
  await syncMailbox(ctx, {});

  const events = await storedEvents(ground().database.database, account.id);
  expect(events.map(({ type }) => type)).toEqual(['email.new', 'email.delete', 'email.new']);
  expect(events[0]?.objectId).toBe(id);
  expect(events[2]?.objectId).not.toBe(id);
  expect(await isCopyIngested(db, id)).toBe(true);
  expect(await findSends(db, account.id, [messageId])).toMatchObject([{ awaited: false }]);
});

it('a copy that the provider filed is found by the Bcc recipients, whom it does not name, also once it is parsed again', async () => {
  const { server, ctx } = await start({ folders: { Sent: ['\\Sent'] } });
  const { db, account } = ctx;
  const id = newId('email');
  const messageId = `<${id}@example.test>`;
  const none = { draftId: null, metadata: null, trackingId: null, tracking: null, inputKey: null };
  const bcc = [
    {
      identifier: 'hidden@bücher.example',
      display_name: 'Zoë Hidden',
      identifier_type: 'EMAIL_ADDRESS' as const,
    },
  ];
  await recordSend(db, { id, accountId: account.id, apiKeyId: newId('apiKey'), apiKeyName: 'a key', ...none });
  await markSubmitting(db, id, { messageId, storageKey: 'a/key.eml', result: { rejected: [], bcc } });
  await markSent(db, id, { rejected: [], bcc });
  server.append('Sent', mailText({ subject: 'sent', text: 'words', messageId }), { flags: ['\\Seen'] });
  await syncMailbox(ctx, { freshSession: true });
  await syncMailbox(ctx, {});

  const page = { metaOnly: true, fields: null, limit: 10, position: null };
  const found = async (q: string) =>
    (await listEmails(ground().database.database.pool, account.id, { q }, page)).data.map(
      (email) => parsePieces(email).id,
    );
  const queries = ['hidden@bücher.example', 'zoe hidden', 'words', 'sent'];
  for (const q of queries) expect([q, await found(q)]).toEqual([q, [id]]);

  const reparse = async () => {
    const [row] = await db.select().from(emails).where(eq(emails.id, id));
    return reparseEmail(ctx, { ...account, authservId: null }, row!);
  };
  expect(await reparse()).toBe('unchanged');
  await db.update(emailSearch).set({ text: ' ' }).where(eq(emailSearch.emailId, id));
  expect(await reparse()).toBe('changed');
  for (const q of queries) expect([q, await found(q)]).toEqual([q, [id]]);
});
