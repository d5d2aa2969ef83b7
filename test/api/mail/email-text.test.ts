import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { eq } from 'drizzle-orm';
import { headText, toEmail } from '../../../src/db/queries/mail/email-object.ts';
import { emailContents, emails } from '../../../src/db/schema/index.ts';
import { storable } from '../../../src/runtime/storable.ts';
import { type ApiUnderTest, apiUnderTest } from '../../helpers/product/api-under-test.ts';
import { type EmailOptions, storeEmail, storeFolder } from '../../helpers/assert/rows.ts';
import { storeAccount } from '../../helpers/product/stored-account.ts';

/*
 * Reads send text that Postgres puts together, and events what `toEmail` makes of the same rows: byte for byte the same,
 * however odd the mail. `api.call` also checks each response against its schema.
 */

let api: ApiUnderTest;
beforeAll(async () => {
  api = await apiUnderTest();
});
afterAll(() => api.close());

type Columns = Partial<typeof emails.$inferInsert>;

const ODD_TEXT = storable('a\0b \ud800 "quoted" \\ / \u2028 \u0001\u007f\t\r\n é 中 😀 </script>');
const report = { recipient: 'x@y.test', action: 'failed', status: '5.1.1', diagnostic: 'a: "b", {c}' };
const about = { message_id: '<1@x>', email_id: null, tracking_id: null };

const MAILS: Record<string, { options: EmailOptions; columns?: Columns }> = {
  plain: { options: {} },
  'odd text': {
    options: { subject: ODD_TEXT, body: ODD_TEXT, bodyPlain: ODD_TEXT, fromName: ODD_TEXT, messageId: `<${ODD_TEXT}>` },
  },
  empty: { options: { subject: '', body: '', bodyPlain: '', fromName: '', from: '', to: [] } },
  'no Message-ID': { options: {}, columns: { messageId: null } },
  'a date long ago': { options: { date: new Date('1000-01-01T00:00:00.000Z') } },
  'the last date': { options: { date: new Date('9999-12-31T23:59:59.999Z') } },
  'a date before 1970': { options: { date: new Date('1969-12-31T23:59:59.001Z') } },
  'a megabyte of text': { options: { body: 'é中😀"\\'.repeat(80_000), bodyPlain: 'x'.repeat(300_000) } },
  'many recipients': { options: { to: Array.from({ length: 500 }, (_, n) => `p${n}@example.test`) } },
  'many attachments': {
    options: {
      attachments: Array.from({ length: 300 }, (_, n) => ({
        ...{ name: `${n} "é".pdf`, mime: 'a/b', size: n },
        ...{ inline: n % 2 === 0, cid: `c${n}` },
      })),
    },
  },
  bounce: {
    options: {},
    columns: { bounce: { ...report, recipients: [{ ...reportAddress(), action: null }], ...about } },
  },
  complaint: {
    options: {},
    columns: {
      complaint: { feedback_type: 'abuse', recipient: null, source_ip: null, user_agent: ODD_TEXT, ...about },
    },
  },
  'an automatic reply': { options: {}, columns: { autoReply: 'auto_reply' } },
  invitation: {
    options: {},
    columns: {
      calendar: {
        ...{ method: 'REQUEST', uid: ODD_TEXT, start: null, end: null, organizer: null },
        ...{ summary: ODD_TEXT, location: null, status: null, time_zone: null, recurrence: [] },
        attendees: [{ address: 'a@b.test', status: null }],
      },
    },
  },
  sent: {
    options: {},
    columns: {
      ...{ origin: 'api', isEcho: true, trackingId: 'trk_1' },
      sentBy: { api_key_id: 'key_1', api_key_name: ODD_TEXT, metadata: null },
    },
  },
  'of a mailing list': {
    options: {},
    columns: { list: { id: ODD_TEXT, unsubscribe: ['https://x.test/"', ODD_TEXT], unsubscribe_post: true } },
  },
  'of a known sender': {
    options: {},
    columns: { authentication: { spf: 'pass', dkim: 'pass', dmarc: null, from_aligned: true } },
  },
  starred: { options: {}, columns: { flags: ['\\flagged'] } },
  'answered, with keywords': { options: {}, columns: { flags: ['"a\\', '$forwarded', '\\answered', '{,}'] } },
  'with a bounce and flags': { options: {}, columns: { autoReply: 'auto_reply', flags: ['$x', '\\flagged'] } },
  'with no flags read': { options: {}, columns: { flags: null } },
  draft: { options: { draft: true } },
  'cut short and unread': { options: { unread: true }, columns: { isComplete: false } },
};

function reportAddress() {
  return { address: 'x@y.test', status: '5.1.1', diagnostic: null };
}

/** Changes columns of a row, and its head with them. */
async function change(id: string, columns: Columns, head: boolean): Promise<void> {
  const { db } = api.database;
  const [row] = await db.update(emails).set(columns).where(eq(emails.id, id)).returning();
  if (row && head)
    await db
      .update(emailContents)
      .set({ head: headText(row) })
      .where(eq(emailContents.emailId, id));
}

/** As an event shows it, and as reads do. */
async function texts(account: string, id: string, folders: string[]) {
  const { db } = api.database;
  const [row] = await db.select().from(emails).where(eq(emails.id, id));
  const [contents] = await db.select().from(emailContents).where(eq(emailContents.emailId, id));
  if (!row) throw new Error('the email is gone');
  const ofEvent = (withContents: boolean) => {
    const email = toEmail(row, contents ?? null, [...folders].sort());
    const none = { body: '', body_plain: '', body_new: null, attachments: [] };
    return JSON.stringify(withContents ? email : { ...email, ...none });
  };
  const body = async (path: string) => (await api.call('GET', `/${account}${path}`)).body;
  return { ofEvent, body };
}

describe.each(Object.keys(MAILS))('%s', (name) => {
  const { options, columns } = MAILS[name] as (typeof MAILS)[string];

  it.each([true, false])('reads as its events say (head stored: %p)', async (head) => {
    const account = await storeAccount(api.database);
    const inbox = await storeFolder(api.database, account, { role: 'INBOX' });
    const work = await storeFolder(api.database, account, { name: 'Work' });
    for (const folders of [[inbox], [], [work, inbox]]) {
      const { id, draftId } = await storeEmail(api.database, account, { ...options, folders, head });
      const { db } = api.database;
      if (columns) await change(id, columns, head);
      const { ofEvent, body } = await texts(account, id, folders);
      expect(await body(`/emails/${id}`)).toBe(ofEvent(true));
      expect(await body(`/emails/${id}?meta_only=true`)).toBe(ofEvent(false));
      const list = draftId ? '/drafts?limit=1' : '/emails?limit=1';
      const { data } = JSON.parse(await body(list)) as { data: { id: string }[] };
      if (data[0]?.id === id) expect(await body(list)).toContain(`"data":[${ofEvent(true)}]}`);
      await db.delete(emails).where(eq(emails.id, id));
    }
  });
});
