import { type SQL, sql } from 'drizzle-orm';
import type { Bounce, Complaint } from '../contract/email.ts';
import type { Queryable, Tx } from '../db/driver/client.ts';
import { isDeliveryStatus } from '../mime/bounces.ts';
import type { BounceReport, ParsedMail } from '../mime/parser.ts';

/**
 * The reports in a mail. Mail that the account has sent itself is no bounce, since a mailbox may be named postmaster; one with
 * a delivery-status part is a report in any case.
 */
export function reportsIn(parsed: ParsedMail, isOwn: boolean): Pick<ParsedMail, 'bounce' | 'complaint'> {
  const { bounce, complaint, attachments } = parsed;
  const isReport = !isOwn || attachments.some(({ mime }) => isDeliveryStatus(mime));
  return { bounce: isReport ? bounce : null, complaint };
}

/** Whether an email is in a folder for sent mail. */
export async function isInSent(db: Queryable, emailId: string): Promise<boolean> {
  const { rows } = await db.execute(sql`
    select from locations p join folders f on f.id = p.folder_id
    where p.email_id = ${emailId} and f.role = 'SENT' limit 1`);
  return rows.length > 0;
}

/** What the report in each mail says and which sent email it is about; null for mail that is not a report. */
export async function linkReports(
  db: Queryable,
  accountId: string,
  mails: readonly Pick<ParsedMail, 'bounce' | 'complaint'>[],
): Promise<{ bounce: Bounce | null; complaint: Complaint | null }[]> {
  const ids = mails.flatMap(({ bounce, complaint }) => [
    ...(bounce?.messageIds ?? []),
    ...(complaint?.messageIds ?? []),
  ]);
  const sent = await findBounced(db, accountId, ids);
  const linkOf = (messageIds: readonly string[]) => {
    const messageId = messageIds.find((id) => sent.has(id)) ?? messageIds[0] ?? null;
    const email = messageId === null ? undefined : sent.get(messageId);
    return { message_id: messageId, email_id: email?.emailId ?? null, tracking_id: email?.trackingId ?? null };
  };
  return mails.map(({ bounce, complaint }) => ({
    bounce: bounce && bounceOf(bounce, linkOf(bounce.messageIds)),
    complaint: complaint && {
      feedback_type: complaint.feedbackType,
      recipient: complaint.recipient,
      source_ip: complaint.sourceIp,
      user_agent: complaint.userAgent,
      ...linkOf(complaint.messageIds),
    },
  }));
}

function bounceOf(
  { messageIds: _, ...report }: BounceReport,
  link: Pick<Bounce, 'message_id' | 'email_id' | 'tracking_id'>,
): Bounce {
  return { ...report, ...link };
}

/** A sent email that bounced. */
export interface Bounced {
  emailId: string;
  trackingId: string | null;
}

/** The sent emails with these Message-IDs. */
export async function findBounced(
  db: Queryable,
  accountId: string,
  messageIds: string[],
): Promise<Map<string, Bounced>> {
  if (messageIds.length === 0) return new Map();
  type Row = { message_id: string; id: string; tracking_id: string | null };
  const { rows } = await db.execute<Row>(sentWith(accountId, messageIds));
  return new Map(rows.map((row) => [row.message_id, { emailId: row.id, trackingId: row.tracking_id }]));
}

/**
 * Selects `message_id, id, tracking_id`. What this API sent is found before its Sent copy is ingested, and the copy has
 * the same id; of several emails with one Message-ID (an email to oneself has two) it is the one that was sent.
 */
export function sentWith(accountId: string, messageIds: string[]): SQL {
  const wanted = sql`${sql.param(messageIds)}::text[]`;
  return sql`
    select distinct on (message_id) message_id, id, tracking_id from (
      select message_id, id, tracking_id, case state when 'sent' then 0 else 1 end as rank, created_at
      from sends
      where account_id = ${accountId} and message_id = any(${wanted}) and state in ('submitting', 'sent', 'unknown')
      union all
      select server_message_id, id, tracking_id, 0, created_at from sends
      where account_id = ${accountId} and server_message_id = any(${wanted}) and state = 'sent'
      union all
      select message_id, id, tracking_id,
        case when exists (
          select 1 from locations p join folders f on f.id = p.folder_id where p.email_id = e.id and f.role = 'SENT'
        ) then 2 when is_echo then 3 else 4 end, created_at
      from emails e
      where account_id = ${accountId} and message_id = any(${wanted}) and not is_draft
    ) found
    order by message_id, rank, created_at, id`;
}

/**
 * Links bounces that were stored before the email that they are about, as when a bounce is imported first or arrives
 * before the copy in Sent is ingested.
 */
export async function linkEarlierBounces(tx: Tx, accountId: string, messageIds: string[]): Promise<void> {
  if (messageIds.length === 0) return;
  const { rows } = await tx.execute<{ id: string; message_id: string }>(unlinkedBounces(accountId, messageIds));
  const bounced = await findBounced(tx, accountId, [...new Set(rows.map((row) => row.message_id))]);
  for (const { id, message_id } of rows) {
    const { emailId, trackingId } = bounced.get(message_id) ?? {};
    if (emailId === undefined || emailId === id) continue;
    const link = JSON.stringify({ email_id: emailId, tracking_id: trackingId });
    await tx.execute(sql`update emails set bounce = bounce || ${link}::jsonb where id = ${id}`);
  }
}

/** Selects `id, message_id` of the bounces that are about emails with these Message-IDs and are not linked to one. */
export function unlinkedBounces(accountId: string, messageIds: string[]): SQL {
  return sql`
    select id, bounce ->> 'message_id' as message_id from emails
    where account_id = ${accountId} and bounce ->> 'message_id' = any(${sql.param(messageIds)}::text[])
      and bounce is not null and bounce ->> 'email_id' is null`;
}
