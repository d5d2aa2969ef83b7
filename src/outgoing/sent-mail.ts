import { type SQL, sql } from 'drizzle-orm';
import type { Attendee, SentBy } from '../contract/email.ts';
import { anyOf } from '../db/driver/any-of.ts';
import type { Queryable } from '../db/driver/client.ts';
import { sends } from '../db/schema/index.ts';

/* What the store knows of messages that left, or may have left. Reads only: send-state.ts owns the rows. */

/** A send that a message in the mailbox may be a copy of. */
export interface SentMail {
  id: string;
  messageId: string;
  /** the Message-ID that the SMTP server gave it in place of that one */
  serverMessageId: string | null;
  trackingId: string | null;
  sentBy: SentBy;
  bcc: Attendee[];
  /** its Sent copy has not been ingested */
  awaited: boolean;
  /** a provisional Email is shown until then */
  hasProvisional: boolean;
}

/** Sends with these Message-IDs that left, or may have left. */
export async function findSends(tx: Queryable, accountId: string, messageIds: string[]): Promise<SentMail[]> {
  const { rows } = await tx.execute<{ sends: SentMail[] }>(sql`select ${sendsWith(accountId, messageIds)} as sends`);
  return rows[0]?.sends ?? [];
}

/** The Message-IDs that a copy of a send may have. */
export function idsOfSend({ messageId, serverMessageId }: Pick<SentMail, 'messageId' | 'serverMessageId'>): string[] {
  return serverMessageId === null ? [messageId] : [messageId, serverMessageId];
}

/** A part of a statement: sends with these Message-IDs that left, or may have left, as a JSON array of SentMail. */
export function sendsWith(accountId: string, messageIds: string[]): SQL {
  // of several sends of one draft the copy belongs to the one that certainly left
  return sql`(
    select coalesce(json_agg(json_build_object(
      'id', id, 'messageId', message_id, 'serverMessageId', server_message_id,
      'trackingId', tracking_id, 'bcc', coalesce(result -> 'bcc', '[]'),
      'sentBy', json_build_object('api_key_id', api_key_id, 'api_key_name', api_key_name, 'metadata', metadata),
      'awaited', copy_ingested_at is null, 'hasProvisional', email is not null
    ) order by state = 'sent' desc, created_at desc), '[]')
    from sends
    where account_id = ${accountId}
      and (${anyOf(sends.messageId, messageIds)} or ${anyOf(sends.serverMessageId, messageIds)})
      and state in ('submitting', 'sent', 'unknown'))`;
}

/**
 * The id of a stored email in Sent, or in Gmail's All Mail, with one of these Message-IDs. One that was received has the same
 * Message-ID where the sender is a recipient, too.
 */
export async function storedCopy(
  tx: Queryable,
  accountId: string,
  messageIds: readonly (string | null | undefined)[],
): Promise<string | undefined> {
  const { rows } = await tx.execute<{ id: string }>(sql`
    select id from emails e
    where account_id = ${accountId} and message_id = any(${sql.param(messageIds)}::text[]) and not is_draft
      and exists (select from locations l join folders f on f.id = l.folder_id
        where l.email_id = e.id and l.vanished_at is null and f.role in ('SENT', 'ALL'))
    order by id limit 1`);
  return rows[0]?.id;
}

/** Whether another send of the draft, with this Message-ID, may have been made. */
export async function wasSentInDoubt(
  db: Queryable,
  { id, accountId, draftId }: { id: string; accountId: string; draftId: string },
  messageId: string,
): Promise<boolean> {
  const { rows } = await db.execute(sql`
    select from sends where account_id = ${accountId} and message_id = ${messageId} and draft_id = ${draftId}
      and state in ('submitting', 'unknown') and id <> ${id} limit 1`);
  return rows.length > 0;
}

/**
 * Whether the links of a tracking id are in the message of another send, which left or may have left: that of a draft whose outcome is
 * unknown, and which is sent again.
 */
export async function isTrackedElsewhere(db: Queryable, id: string, trackingId: string): Promise<boolean> {
  const { rows } = await db.execute(sql`
    select from tracking_records r left join sends s on s.id = r.email_id
    where r.id = ${trackingId} and r.email_id <> ${id} and coalesce(s.state, 'sent') not in ('queued', 'failed')`);
  return rows.length > 0;
}
