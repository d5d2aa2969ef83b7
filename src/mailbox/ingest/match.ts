import type { Candidate, Recognisable } from '../store/locations.ts';

/** What a message in a folder turned out to be. */
export type Recognised =
  /** never seen: a new email */
  | { kind: 'new' }
  /** a stored email, moved or copied here */
  | { kind: 'email'; emailId: string; from: Candidate }
  /** mail that was there before the account connected, moved or copied here */
  | { kind: 'baseline'; from: Candidate | null };

/** One message that may be new. */
export interface Arrival extends Recognisable {
  uid: number;
}

/**
 * Recognises arrivals in a folder among what is known anywhere in the account (QUALITY "Sync" 2, 4, 5). A server's own
 * id decides where both have one; else Message-ID + size + INTERNALDATE; and for mail that has vanished elsewhere,
 * Message-ID + size alone, since some servers date a moved mail anew. Each known mail is recognised once, and never in
 * a folder that holds it already: two equal mails in one folder are two.
 */
export function recognise(folderId: string, arrivals: Arrival[], candidates: Candidate[]): Map<number, Recognised> {
  const here = new Set(candidates.filter((c) => c.folderId === folderId && !c.vanishedAt).map(keyOf));
  const alike = indexed(candidates.filter((candidate) => !here.has(keyOf(candidate))));
  const taken = new Set<string>();
  const found = new Map<number, Recognised>();
  for (const arrival of arrivals) {
    let best: Candidate | undefined;
    let bestRank = 0;
    for (const candidate of alike(arrival)) {
      const rank = taken.has(keyOf(candidate)) ? 0 : rankOf(arrival, candidate);
      if (rank > bestRank) [best, bestRank] = [candidate, rank];
    }
    if (best) taken.add(keyOf(best));
    found.set(arrival.uid, recognisedAs(best));
  }
  return found;
}

/** Folders in which a look-alike still seems to lie: whether it does decides between a move, a copy and new mail. */
export function foldersToCheck(folderId: string, arrivals: Arrival[], candidates: Candidate[]): string[] {
  const alike = indexed(candidates.filter((candidate) => candidate.folderId !== folderId && !candidate.vanishedAt));
  const suspects = arrivals.flatMap((arrival) => alike(arrival).filter((candidate) => looksLike(arrival, candidate)));
  return [...new Set(suspects.map((candidate) => candidate.folderId))];
}

/** Candidates that share a sign with an arrival; the strong identity implies the weak one. */
function indexed(candidates: Candidate[]): (arrival: Arrival) => Candidate[] {
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

function recognisedAs(candidate: Candidate | undefined): Recognised {
  if (!candidate) return { kind: 'new' };
  return candidate.emailId
    ? { kind: 'email', emailId: candidate.emailId, from: candidate }
    : { kind: 'baseline', from: candidate };
}

/** One known mail: an email wherever it lies, or one baseline placement. */
function keyOf(candidate: Candidate): string {
  return candidate.emailId ?? `${candidate.folderId}:${candidate.uid}`;
}

/** 0: not the same. Stored emails before baseline, surer signs before weaker ones, vanished before still there. */
function rankOf(arrival: Arrival, candidate: Candidate): number {
  const sure = sameServerId(arrival, candidate);
  if (sure === false) return 0;
  const strong = arrival.identity === candidate.identity;
  const weak = candidate.vanishedAt !== null && arrival.weakIdentity === candidate.weakIdentity;
  if (!sure && !strong && !weak) return 0;
  return (sure ? 16 : 0) + (strong ? 8 : 0) + (candidate.vanishedAt ? 4 : 0) + (candidate.emailId ? 2 : 0) + 1;
}

function looksLike(arrival: Arrival, candidate: Candidate): boolean {
  const sure = sameServerId(arrival, candidate);
  return sure ?? arrival.weakIdentity === candidate.weakIdentity;
}

/** True or false where both have a server's id, undefined where one lacks it. */
function sameServerId(arrival: Arrival, candidate: Candidate): boolean | undefined {
  if (!arrival.serverId || !candidate.serverId) return undefined;
  return arrival.serverId === candidate.serverId;
}
