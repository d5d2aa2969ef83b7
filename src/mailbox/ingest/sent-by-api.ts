import type { Queryable } from '../../db/client.ts';
import type { MessageMeta } from '../../imap/fetch.ts';
import { awaitedDrafts } from '../../sending/draft-state.ts';
import { findSends, type SentMail } from '../../sending/send-state.ts';
import type { SyncContext } from '../context.ts';
import type { FolderState } from '../store/folders.ts';
import type { Recognised } from './match.ts';

/** What this API knows of the messages of a batch, by UID (QUALITY "Sync" 6). */
export interface Ours {
  /** the Sent copies of sends, which get the ids reserved for them */
  copies: Map<number, SentMail>;
  /** drafts that were being saved, with the ids reserved for them */
  drafts: Map<number, { id: string; trackingId: string | null }>;
  /** messages that were sent by this API, copies and received ones */
  sent: Set<number>;
}

/**
 * Which arrivals are what this API itself sent or saved, told by the Message-ID. Such a one is new whatever else it
 * looks like: the Sent copy of a draft has the draft's Message-ID and often its size. A mail that the owner sent to the
 * mailbox itself has a Sent copy and is received as well: only the one in Sent is the copy, save in Gmail, where both
 * are one mail.
 */
export async function findOurs(
  db: Queryable,
  ctx: SyncContext,
  folder: FolderState,
  arrivals: MessageMeta[],
  found: Map<number, Recognised>,
): Promise<Ours> {
  const ours: Ours = { copies: new Map(), drafts: new Map(), sent: new Set() };
  const byMessageId = new Map<string, MessageMeta[]>();
  for (const meta of arrivals) {
    if (!meta.messageId) continue;
    const known = byMessageId.get(meta.messageId);
    if (known) known.push(meta);
    else byMessageId.set(meta.messageId, [meta]);
  }
  const messageIds = [...byMessageId.keys()];
  const reserve = <T>(map: Map<number, T>, messageId: string, value: T) => {
    const uid = byMessageId.get(messageId)?.[0]?.uid;
    if (uid === undefined || map.has(uid)) return;
    map.set(uid, value);
    found.set(uid, { kind: 'new' });
  };
  if (folder.role === 'DRAFTS') {
    for (const draft of await awaitedDrafts(db, ctx.account.id, messageIds))
      reserve(ours.drafts, draft.messageId, draft);
    return ours;
  }
  // There a draft lies in All Mail too, and on its way out in Trash: those are known by their X-GM-MSGID.
  const inGmail = ctx.session.has('X-GM-EXT-1') && folder.role !== 'TRASH' && folder.role !== 'SPAM';
  for (const send of await findSends(db, ctx.account.id, messageIds)) {
    const metas = byMessageId.get(send.messageId) ?? [];
    for (const { uid } of metas) ours.sent.add(uid);
    const isCopy = folder.role === 'SENT' || (inGmail && metas[0] && found.get(metas[0].uid)?.kind === 'new');
    if (send.awaited && isCopy) reserve(ours.copies, send.messageId, send);
  }
  return ours;
}
