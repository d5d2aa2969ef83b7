import type { Account, InitialSync } from './account.ts';
import type { Attendee, Email } from './email.ts';
import type { EventType } from './events.ts';
import type { Folder } from './folder.ts';
import type { Import } from './runs/import.ts';
import type { TrackingOpenData } from './tracking.ts';

/*
 * `data` of test events: an example of each type. None of the objects in it exist, and so no route finds their ids,
 * except the id of the account.
 */

const NUMBER = '01sampe0sampe0sampe0sampe0';
/** Id of the sample account, for an installation without accounts. */
export const SAMPLE_ACCOUNT_ID = `acc_${NUMBER}`;
const EMAIL_ID = `email_${NUMBER}`;
const FOLDER_ID = `fld_${NUMBER}`;
const MESSAGE_ID = '<sample@example.com>';
const OWNER = 'owner@example.com';

const attendee = (identifier: string, display_name: string): Attendee => ({
  identifier,
  display_name,
  identifier_type: 'EMAIL_ADDRESS',
});

function email(account_id: string, date: string, more: Partial<Email> = {}): Email {
  const subject = more.subject ?? 'A sample email';
  return {
    object: 'Email',
    id: EMAIL_ID,
    account_id,
    thread_id: `thr_${NUMBER}`,
    message_id: MESSAGE_ID,
    date,
    subject,
    from_attendee: attendee('ada@example.com', 'Ada Lovelace'),
    to_attendees: [attendee(OWNER, 'Owner')],
    cc_attendees: [],
    bcc_attendees: [],
    reply_to_attendees: [],
    snippet: 'This is a sample.',
    body: '<p>This is a sample.</p>',
    body_plain: 'This is a sample.',
    has_attachments: true,
    attachments: [
      {
        id: `att_${NUMBER}`,
        name: 'menu.txt',
        extension: 'txt',
        size: 12,
        mime: 'text/plain',
        cid: null,
        inline: false,
      },
    ],
    folders: [FOLDER_ID],
    is_unread: true,
    is_starred: false,
    is_answered: false,
    is_forwarded: false,
    keywords: [],
    is_complete: true,
    headers: [
      { name: 'From', value: 'Ada Lovelace <ada@example.com>' },
      { name: 'To', value: `Owner <${OWNER}>` },
      { name: 'Subject', value: subject },
      { name: 'Message-ID', value: MESSAGE_ID },
    ],
    origin: 'external',
    is_echo: false,
    tracking_id: null,
    ...more,
  };
}

const bounce = (account: string, date: string): Email =>
  email(account, date, {
    subject: 'Undelivered Mail Returned to Sender',
    from_attendee: attendee('mailer-daemon@example.com', 'Mail Delivery System'),
    has_attachments: false,
    attachments: [],
    bounce: {
      recipient: 'nobody@example.com',
      action: 'failed',
      status: '5.1.1',
      diagnostic: 'smtp; 550 5.1.1 no such user',
      message_id: '<sent@example.com>',
      email_id: EMAIL_ID,
      tracking_id: null,
    },
  });

const draft = (account: string, date: string): Email =>
  email(account, date, {
    object: 'Draft',
    draft_id: `drf_${NUMBER}`,
    from_attendee: attendee(OWNER, 'Owner'),
    to_attendees: [attendee('ada@example.com', 'Ada Lovelace')],
    is_unread: false,
    is_echo: true,
    origin: 'api',
  });

const folder = (account_id: string): Folder => ({
  object: 'Folder',
  id: FOLDER_ID,
  account_id,
  name: 'Invoices',
  role: 'UNKNOWN',
  parent_id: null,
  total_count: 3,
  unread_count: 1,
});

const server = { user: OWNER, encryption: 'SSL' } as const;

const account = (id: string, date: string): Account => ({
  object: 'Account',
  id,
  user_id: OWNER,
  name: OWNER,
  provider: 'imap',
  status: 'running',
  status_detail: '',
  is_locked: false,
  metadata: {},
  connection_params: {
    mail: {
      imap_host: 'imap.example.com',
      imap_port: 993,
      imap_user: server.user,
      imap_encryption: server.encryption,
      smtp_host: 'smtp.example.com',
      smtp_port: 465,
      smtp_user: server.user,
      smtp_encryption: server.encryption,
    },
  },
  created_at: date,
  last_synced_at: date,
  initial_sync: null,
  authserv_id: null,
  retention_days: null,
});

const removedAccount = (id: string) => ({ id, user_id: OWNER, name: OWNER, provider: 'imap' as const });

const hit = (date: string): TrackingOpenData => ({
  tracking_id: `trk_${NUMBER}`,
  label: 'sample',
  message_id: MESSAGE_ID,
  email_id: EMAIL_ID,
  date,
  ip: '192.0.2.1',
  user_agent: 'Mozilla/5.0',
});

const status = (to: string, from: string, detail: string) => ({
  status: to,
  previous_status: from,
  status_detail: detail,
});

const initialSync = (to: InitialSync['status'], date: string): InitialSync => ({
  status: to,
  started_at: date,
  completed_at: to === 'running' ? null : date,
  days: 30,
  imported: to === 'running' ? 0 : 120,
});

const oauthApp = (to: 'ok' | 'failing', detail: string) => ({
  app: { id: `oap_${NUMBER}`, provider: 'microsoft', name: 'Mail for CRM', status: to, status_detail: detail },
});
const importOf = (account_id: string, date: string, to: Import['status']): Import => {
  const done = to === 'completed' ? 1_200 : 0;
  return {
    object: 'Import',
    id: `imp_${NUMBER}`,
    account_id,
    status: to,
    reason: to === 'failed' ? 'the connection timed out' : null,
    next_attempt_at: null,
    since: null,
    until: null,
    folders: null,
    order: 'newest_first',
    progress: {
      folders_known: 8,
      folders_done: to === 'completed' ? 8 : 0,
      messages_known: 1_200,
      messages_done: done,
      messages_left: 1_200 - done,
    },
    imported: done,
    messages_per_second: to === 'running' ? 0 : null,
    created_at: date,
    started_at: date,
    completed_at: to === 'running' ? null : date,
  };
};

const SAMPLES: Record<EventType, (accountId: string, date: string) => object> = {
  'email.new': (id, date) => ({ email: email(id, date) }),
  'email.new.bounce': (id, date) => ({ email: bounce(id, date) }),
  'email.update': (id, date) => ({ email: email(id, date, { is_unread: false }) }),
  'email.delete': (id, date) => ({ email: email(id, date) }),
  'email.draft.new': (id, date) => ({ email: draft(id, date) }),
  'email.draft.delete': (id, date) => ({ email: draft(id, date) }),
  'email.folder.create': (id) => ({ folder: folder(id) }),
  'email.folder.update': (id) => ({ folder: folder(id) }),
  'email.folder.delete': (id) => ({ folder: folder(id) }),
  'tracking.open': (_, date) => hit(date),
  'tracking.click': (_, date) => ({ ...hit(date), url: 'https://example.com/spring' }),
  'account.add': (id, date) => ({ account: account(id, date) }),
  'account.reconnect': (id, date) => ({ account: account(id, date) }),
  'account.remove': (id) => ({ account: removedAccount(id) }),
  'account.status.running': () => status('running', 'errored', ''),
  'account.status.errored': () => status('errored', 'running', 'the connection timed out'),
  'account.status.disconnected': () => status('disconnected', 'running', 'Invalid credentials'),
  'account.initial_sync.running': (_, date) => ({ initial_sync: initialSync('running', date) }),
  'account.initial_sync.completed': (_, date) => ({ initial_sync: initialSync('completed', date) }),
  'account.initial_sync.failed': (_, date) => ({ initial_sync: initialSync('failed', date) }),
  'oauth_app.failing': () => oauthApp('failing', 'the client secret of the app has expired: create a new one'),
  'oauth_app.recovered': () => oauthApp('ok', ''),
  'import.started': (id, date) => ({ import: importOf(id, date, 'running') }),
  'import.completed': (id, date) => ({ import: importOf(id, date, 'completed') }),
  'import.failed': (id, date) => ({ import: importOf(id, date, 'failed') }),
  'import.cancelled': (id, date) => ({ import: importOf(id, date, 'cancelled') }),
  'account.restored': (_, date) => ({ epoch: Date.parse(date), set_back_to: date, restored_at: date }),
};

/** Returns `data` of a test event of that type. */
export function sampleData(type: EventType, accountId: string, at: Date): object {
  return SAMPLES[type](accountId, at.toISOString());
}
