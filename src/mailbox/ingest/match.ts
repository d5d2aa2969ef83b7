import type { Queryable } from '../../db/client.ts';
import type { MessageMeta } from '../../imap/fetch.ts';
import { awaitedDrafts } from '../../sending/draft-state.ts';
import { findSends, type SentMail } from '../../sending/send-state.ts';
import type { SyncContext } from '../context.ts';
import type { FolderState } from '../store/folders.ts';
import type { Candidate, MessageIdentity } from '../store/locations.ts';

/** What a message in a folder turned out to be. */
export type Match =
  /** never seen: a new email */
  | { kind: 'new' }
  /** a stored email, moved or copied here */
  | { kind: 'email'; emailId: string; from: Candidate }
  /** mail that was there before the account connected, moved or copied here */
  | { kind: 'baseline'; from: Candidate | null };

/** One message that may be new. */
export interface ArrivedMessage extends MessageIdentity {
  uid: number;
}

/**
 * Recognises arrivals in a folder among what is known anywhere in the account (QUALITY "Sync" 2, 4, 5). A server's own
 * id decides where both have one; else Message-ID + size + INTERNALDATE; and for mail that has vanished elsewhere,
 * Message-ID + size alone, since some servers date a moved mail anew. Each known mail is recognised once, and never in
 * a folder that holds it already: two equal mails in one folder are two.
 */
export function matchMessages(
  folderId: string,
  arrivals: ArrivedMessage[],
  candidates: Candidate[],
): Map<number, Match> {
  const here = new Set(candidates.filter((c) => c.folderId === folderId && !c.vanishedAt).map(keyOf));
  const alike = indexed(candidates.filter((candidate) => !here.has(keyOf(candidate))));
  const taken = new Set<string>();
  const found = new Map<number, Match>();
  for (const arrival of arrivals) {
    let best: Candidate | undefined;
    let bestRank = 0;
    for (const candidate of alike(arrival)) {
      const rank = taken.has(keyOf(candidate)) ? 0 : rankOf(arrival, candidate);
      if (rank > bestRank) [best, bestRank] = [candidate, rank];
    }
    if (best) taken.add(keyOf(best));
    found.set(arrival.uid, matchOf(best));
  }
  return found;
}

/** Folders in which a look-alike still seems to lie: whether it does decides between a move, a copy and new mail. */
export function foldersToCheck(folderId: string, arrivals: ArrivedMessage[], candidates: Candidate[]): string[] {
  const alike = indexed(candidates.filter((candidate) => candidate.folderId !== folderId && !candidate.vanishedAt));
  const suspects = arrivals.flatMap((arrival) => alike(arrival).filter((candidate) => isSimilar(arrival, candidate)));
  return [...new Set(suspects.map((candidate) => candidate.folderId))];
}

/** Candidates that share a sign with an arrival; the strong identity implies the weak one. */
function indexed(candidates: Candidate[]): (arrival: ArrivedMessage) => Candidate[] {
  const byWeak = new Map<string, Candidate[]>();
  const byServerId = new Map<string, Candidate[]>();
  const add = (map: Map<string, Candidate[]>, key: string, candidate: Candidate) => {
    const known = map.get(key);
    if (known) known.push(candidate);
    else map.set(key, [candidate]);
  };
  for (const candidate of candidates) {
    add(byWeak, candidate.weakIdentity, candidate);
    if (candidate.serverId) add(byServerId, candidate.serverId, candidate);
  }
  return ({ weakIdentity, serverId }) => [
    ...new Set([...(byWeak.get(weakIdentity) ?? []), ...((serverId && byServerId.get(serverId)) || [])]),
  ];
}

function matchOf(candidate: Candidate | undefined): Match {
  if (!candidate) return { kind: 'new' };
  return candidate.emailId
    ? { kind: 'email', emailId: candidate.emailId, from: candidate }
    : { kind: 'baseline', from: candidate };
}

/** One known mail: an email wherever it lies, or one baseline location. */
function keyOf(candidate: Candidate): string {
  return candidate.emailId ?? `${candidate.folderId}:${candidate.uid}`;
}

/** 0: not the same. Stored emails before baseline, surer signs before weaker ones, vanished before still there. */
function rankOf(arrival: ArrivedMessage, candidate: Candidate): number {
  const sure = sameServerId(arrival, candidate);
  if (sure === false) return 0;
  const strong = arrival.identity === candidate.identity;
  const weak = candidate.vanishedAt !== null && arrival.weakIdentity === candidate.weakIdentity;
  if (!sure && !strong && !weak) return 0;
  return (sure ? 16 : 0) + (strong ? 8 : 0) + (candidate.vanishedAt ? 4 : 0) + (candidate.emailId ? 2 : 0) + 1;
}

function isSimilar(arrival: ArrivedMessage, candidate: Candidate): boolean {
  const sure = sameServerId(arrival, candidate);
  return sure ?? arrival.weakIdentity === candidate.weakIdentity;
}

/** True or false where both have a server's id, undefined where one lacks it. */
function sameServerId(arrival: ArrivedMessage, candidate: Candidate): boolean | undefined {
  if (!arrival.serverId || !candidate.serverId) return undefined;
  return arrival.serverId === candidate.serverId;
}

/** What this API knows of the messages of a batch, by UID (QUALITY "Sync" 6). */
export interface SentByApi {
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
export async function findSentByApi(
  db: Queryable,
  ctx: SyncContext,
  folder: FolderState,
  arrivals: MessageMeta[],
  found: Map<number, Match>,
): Promise<SentByApi> {
  const ours: SentByApi = { copies: new Map(), drafts: new Map(), sent: new Set() };
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
