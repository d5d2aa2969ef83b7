import { statement } from '../../db/driver/statement.ts';
import { sql } from 'drizzle-orm';
import type { Queryable } from '../../db/driver/client.ts';
import type { MessageMeta } from '../../imap/fetch.ts';
import { NO_UIDVALIDITY } from '../../imap/uidvalidity.ts';
import { GATHER_SEARCH_ENTRIES } from '../../db/coordination/search-index.ts';
import { awaitedDrafts } from '../../outgoing/draft-state.ts';
import { idsOfSend, type SentMail, sendsWith } from '../../outgoing/sent-mail.ts';
import type { SyncContext } from '../context.ts';
import { authservIdOf } from '../settings.ts';
import type { Selection } from '../selected.ts';
import type { FolderState } from '../store/folders.ts';
import { type Candidate, candidatesLike, locatedOf, type MessageIdentity, readCandidates } from '../store/locations.ts';
import { matchSentCopies, type SentCopyRule, sentCopyRule } from './sent-copies.ts';

/** What a message in a folder is. */
export type Match =
  /** never seen: a new email */
  | { kind: 'new' }
  /** a stored email, moved or copied here */
  | { kind: 'email'; emailId: string; from: Candidate }
  /** a message that existed before the account connected, moved or copied here; `date`: as that of the candidate */
  | { kind: 'baseline'; from: Candidate | null; date: Date | null };

/** One message that may be new. */
export interface ArrivedMessage extends MessageIdentity {
  uid: number;
}

/**
 * Matches arrivals in a folder with the messages that are stored anywhere in the account. A
 * server's own id decides where both have one; else Message-ID + size + INTERNALDATE; and for messages that have vanished
 * elsewhere Message-ID + size alone, since some servers change INTERNALDATE on a move. Each stored message is matched
 * once, and never in a folder that has it already: two equal messages in one folder are two. `isDrafts`: mail programs save a
 * changed draft there under the same Message-ID, maybe with the same size.
 */
export function matchMessages(
  folderId: string,
  arrivals: ArrivedMessage[],
  candidates: Candidate[],
  isDrafts = false,
): Map<number, Match> {
  const isSavedAgain = (candidate: Candidate) => isDrafts && candidate.folderId === folderId;
  const here = new Set(candidates.filter((c) => c.folderId === folderId && !c.vanishedAt).map(keyOf));
  const alike = indexed(candidates.filter((candidate) => !here.has(keyOf(candidate))));
  const alikeBaseline = indexed(candidates.filter(({ emailId }) => emailId === null));
  const matched = new Set<string>();
  const matches = new Map<number, Match>();
  for (const arrival of arrivals) {
    let best: Candidate | undefined;
    let bestRank = 0;
    for (const candidate of alike(arrival)) {
      const rank = matched.has(keyOf(candidate)) ? 0 : rankOf(arrival, candidate, isSavedAgain(candidate));
      if (rank > bestRank) [best, bestRank] = [candidate, rank];
    }
    if (best) matched.add(keyOf(best));
    // A further copy of a message that existed before the account connected is as old as that message.
    const original = best ? undefined : alikeBaseline(arrival).find((candidate) => isCopy(arrival, candidate));
    matches.set(arrival.uid, original ? { kind: 'baseline', from: null, date: original.date } : matchOf(best));
  }
  return matches;
}

function isCopy(arrival: ArrivedMessage, candidate: Candidate): boolean {
  return sameServerId(arrival, candidate) ?? arrival.identity === candidate.identity;
}

/** Folders in which a look-alike seems to be still: whether it is decides between a move, a copy and a new email. */
export function foldersToCheck(folderId: string, arrivals: ArrivedMessage[], candidates: Candidate[]): string[] {
  const alike = indexed(candidates.filter((candidate) => candidate.folderId !== folderId && !candidate.vanishedAt));
  const suspects = arrivals.flatMap((arrival) =>
    alike(arrival).filter((candidate) => isSameMessage(arrival, candidate)),
  );
  return [...new Set(suspects.map((candidate) => candidate.folderId))];
}

/** Candidates that share the weak identity or the server's id with an arrival; equal identities imply equal weak ones. */
function indexed(candidates: Candidate[]): (arrival: ArrivedMessage) => Candidate[] {
  const byWeak = groupBy(candidates, ({ weakIdentity }) => weakIdentity);
  const byServerId = groupBy(candidates, ({ serverId }) => serverId);
  return ({ weakIdentity, serverId }) => [
    ...new Set([...(byWeak.get(weakIdentity) ?? []), ...((serverId && byServerId.get(serverId)) || [])]),
  ];
}

function groupBy<K>(candidates: Candidate[], keyOf: (candidate: Candidate) => K): Map<K, Candidate[]> {
  const groups = new Map<K, Candidate[]>();
  for (const candidate of candidates) {
    const key = keyOf(candidate);
    const group = groups.get(key);
    if (group) group.push(candidate);
    else groups.set(key, [candidate]);
  }
  return groups;
}

function matchOf(candidate: Candidate | undefined): Match {
  if (!candidate) return { kind: 'new' };
  return candidate.emailId
    ? { kind: 'email', emailId: candidate.emailId, from: candidate }
    : { kind: 'baseline', from: candidate, date: candidate.date };
}

/** One stored message: an email in all its locations, or one baseline location. */
function keyOf(candidate: Candidate): string {
  return candidate.emailId ?? `${candidate.folderId}:${candidate.uid}`;
}

/**
 * 0: not the same. Emails before baseline, stronger identities before weaker ones, vanished before present. `isExact`: a weak
 * identity does not count.
 */
function rankOf(arrival: ArrivedMessage, candidate: Candidate, isExact: boolean): number {
  const sure = sameServerId(arrival, candidate);
  if (sure === false) return 0;
  const strong = arrival.identity === candidate.identity;
  const weak = !isExact && candidate.vanishedAt !== null && arrival.weakIdentity === candidate.weakIdentity;
  if (!sure && !strong && !weak) return 0;
  return (sure ? 16 : 0) + (strong ? 8 : 0) + (candidate.vanishedAt ? 4 : 0) + (candidate.emailId ? 2 : 0) + 1;
}

/**
 * Whether a message is the one that is stored for its UID: by the server's own id where both have one, else by Message-ID
 * and size, since INTERNALDATE may differ after a move.
 */
export function isSameMessage(message: MessageIdentity, stored: MessageIdentity): boolean {
  return sameServerId(message, stored) ?? message.weakIdentity === stored.weakIdentity;
}

/** True or false where both have a server's id, undefined where one lacks it. */
function sameServerId(
  one: Pick<MessageIdentity, 'serverId'>,
  other: Pick<MessageIdentity, 'serverId'>,
): boolean | undefined {
  if (!one.serverId || !other.serverId) return undefined;
  return one.serverId === other.serverId;
}

/** Where messages are ingested. */
export interface IngestTarget {
  folder: FolderState;
  selection: Selection;
  /**
   * `live`: arrived; `api`: appended by this API, not covered by the cursor yet; `initialSync`: from before the connect
   * (no `email.new`)
   */
  source: 'live' | 'api' | 'initialSync';
  /** the import that this is a part of; left out: the initial sync, or none */
  importId?: string | undefined;
  /** the cursor must not pass this UID: its message is not stored */
  cursorLimit?: number;
  /** of the folder, before the messages were listed: if it has changed, this API may have taken some out since; left out: it has not */
  localRevision?: number | undefined;
}

/** A draft that this API saved, with the id reserved for it. */
export interface ReservedDraft {
  id: string;
  messageId: string;
  trackingId: string | null;
}

/** What an arrival is, and what this API knows about a new one. */
export type ArrivalMatch =
  | Exclude<Match, { kind: 'new' }>
  | {
      kind: 'new';
      /** the send whose Sent copy it is; it gets that send's id */
      copyOf: SentMail | null;
      draft: ReservedDraft | null;
      /** it was sent by this API: a copy, or received */
      sentByApi: boolean;
    };

/** The store's data about the messages of a batch. */
export interface MatchFacts {
  /** of the folder */
  localRevision: number;
  /** UIDs of this folder that are stored already */
  located: ReadonlySet<number>;
  candidates: Candidate[];
  /** sends with the same Message-IDs */
  sends: SentMail[];
  /** drafts that are being saved with the same Message-IDs */
  drafts: ReservedDraft[];
  /** the provider's name in Authentication-Results; null: unknown */
  authservId: string | null;
}

type MatchTarget = Pick<IngestTarget, 'folder' | 'selection' | 'source'>;

const matchFacts = statement(
  'match_facts',
  (accountId: string, { folder, selection, source }: MatchTarget, metas: MessageMeta[]) => {
    const imported = source === 'initialSync';
    const uids = metas.map(({ uid }) => uid);
    const messageIds = [...new Set(metas.flatMap(({ messageId }) => messageId ?? []))];
    const none = sql`'[]'::json`;
    const isDrafts = folder.role === 'DRAFTS';
    // what a transaction stores of the batch is gathered for the search index
    return sql`
    select local_revision::float8 as local_revision, ${locatedOf(folder.id, uids, imported)} as located, ${candidatesLike(accountId, metas)} as candidates,
      ${imported || isDrafts ? none : sendsWith(accountId, messageIds)} as sends,
      ${imported || !isDrafts ? none : awaitedDrafts(accountId, messageIds)} as drafts,
      (select json_build_object('authservId', authserv_id, 'imapHost', imap_host) from accounts where id = ${accountId}) as account,
      ${GATHER_SEARCH_ENTRIES}
    from folders where id = ${folder.id}
      and coalesce(uid_validity, ${NO_UIDVALIDITY}) in (${NO_UIDVALIDITY}, ${selection.uidValidity})`;
  },
);

/**
 * Reads the rows that matching a batch needs, in one statement; undefined when the folder is no longer stored, or has got
 * another UIDVALIDITY.
 */
export async function loadMatchFacts(
  db: Queryable,
  accountId: string,
  { folder, selection, source }: IngestTarget,
  metas: MessageMeta[],
): Promise<MatchFacts | undefined> {
  const { rows } = await db.execute<FactsRow>(matchFacts(accountId, { folder, selection, source }, metas));
  const [row] = rows;
  if (!row) return undefined;
  const candidates = readCandidates(row.candidates);
  return {
    localRevision: row.local_revision,
    located: new Set(row.located),
    candidates: source === 'initialSync' ? candidates.filter(({ emailId }) => emailId !== null) : candidates,
    sends: row.sends,
    drafts: row.drafts,
    authservId: authservIdOf(row.account),
  };
}

interface FactsRow extends Record<string, unknown> {
  local_revision: number;
  located: number[];
  candidates: Parameters<typeof readCandidates>[0];
  sends: SentMail[];
  drafts: ReservedDraft[];
  account: Parameters<typeof authservIdOf>[0];
}

/** The conditions for matching arrivals, apart from the store. */
export interface MatchRules {
  folderId: string;
  isDrafts: boolean;
  source: IngestTarget['source'];
  sentCopies: SentCopyRule;
  /**
   * a message with an INTERNALDATE before `date` and a UID below `uid` existed when the account connected; null: whether it
   * did makes no difference
   */
  baseline: { date: Date; uid: number } | null;
}

/** How far a mail server's clock may differ from ours. */
const CLOCK_SKEW_MS = 120_000;

export function matchRulesOf(
  { account, session, baselineKnown }: Pick<SyncContext, 'account' | 'session' | 'baselineKnown'>,
  { folder, source }: IngestTarget,
): MatchRules {
  const date = new Date(account.connectedAt.getTime() - CLOCK_SKEW_MS);
  // The scan leaves out what the server does not send at that moment: such a message is not new mail when it sends it later.
  const uid = baselineKnown() ? (folder.baselineUidNext ?? 0) : Infinity;
  return {
    folderId: folder.id,
    isDrafts: folder.role === 'DRAFTS',
    source,
    sentCopies: sentCopyRule(session, folder),
    baseline: source === 'initialSync' ? null : { date, uid },
  };
}

/**
 * The messages whose source is fetched before the commit: those that resemble nothing stored. A cheap guess without
 * ranking: the commit decides, and requests what is missing.
 */
export function selectUnknown(rules: MatchRules, metas: MessageMeta[], facts: MatchFacts): MessageMeta[] {
  if (rules.source === 'api') return metas;
  const { located, candidates, sends, drafts } = facts;
  const alike = indexed(candidates.filter(({ folderId, vanishedAt }) => folderId !== rules.folderId || vanishedAt));
  const awaitedSends = sends.filter((send) => send.awaited).flatMap(idsOfSend);
  const awaited = new Set([...awaitedSends, ...drafts.map(({ messageId }) => messageId)]);
  return metas.filter((meta) => {
    if (located.has(meta.uid)) return false;
    if (meta.messageId && awaited.has(meta.messageId)) return true;
    return alike(meta).length === 0 && !isBaseline(meta, rules);
  });
}

/**
 * Matches each message of a batch; stored messages are left out. A message that this API sent or saved is new even if it
 * resembles another: the Sent copy of a draft has the draft's Message-ID and often its size.
 */
export function matchArrivals(rules: MatchRules, metas: MessageMeta[], facts: MatchFacts): Map<number, ArrivalMatch> {
  const arrivals = metas.filter(({ uid }) => !facts.located.has(uid));
  const stored = matchMessages(rules.folderId, arrivals, facts.candidates, rules.isDrafts);
  const isUnmatched = (meta: MessageMeta) => stored.get(meta.uid)?.kind === 'new' && !isBaseline(meta, rules);
  const firstWith = firstByMessageId(arrivals);
  const draftOf = new Map<number, ReservedDraft>();
  for (const draft of facts.drafts) {
    const uid = firstWith.get(draft.messageId)?.uid;
    if (uid !== undefined && !draftOf.has(uid)) draftOf.set(uid, draft);
  }
  const sendOf = matchSentCopies(rules.sentCopies, facts.sends, { firstWith, isUnmatched });
  const sent = new Set(facts.sends.flatMap(idsOfSend));
  return new Map(
    arrivals.map((meta): [number, ArrivalMatch] => {
      const copyOf = sendOf.get(meta.uid) ?? null;
      const draft = draftOf.get(meta.uid) ?? null;
      const match = stored.get(meta.uid) ?? { kind: 'new' };
      if (!copyOf && !draft) {
        if (match.kind !== 'new') return [meta.uid, match];
        // Until the baseline is scanned, an older message is treated as one that existed before and was moved.
        if (isBaseline(meta, rules)) return [meta.uid, { kind: 'baseline', from: null, date: null }];
      }
      const sentByApi = meta.messageId !== null && sent.has(meta.messageId);
      return [meta.uid, { kind: 'new', copyOf, draft, sentByApi }];
    }),
  );
}

function isBaseline({ uid, internalDate }: MessageMeta, { baseline }: MatchRules): boolean {
  return baseline !== null && internalDate < baseline.date && uid < baseline.uid;
}

function firstByMessageId(metas: MessageMeta[]): Map<string, MessageMeta> {
  const first = new Map<string, MessageMeta>();
  for (const meta of metas) if (meta.messageId && !first.has(meta.messageId)) first.set(meta.messageId, meta);
  return first;
}
