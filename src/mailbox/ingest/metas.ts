import { fetchMeta, fetchMetaOf, type MessageMeta } from '../../imap/fetch.ts';
import { listUids } from '../../imap/list-uids.ts';
import { byUid } from '../../imap/sets.ts';
import type { SyncContext } from '../context.ts';
import { isTokenEnd } from '../logins.ts';
import { undeliveredIn } from './fetch.ts';
import type { Undelivered } from './undelivered.ts';

type MetaContext = Pick<SyncContext, 'session' | 'account' | 'undelivered'>;
type SelectedMail = Parameters<typeof undeliveredIn>[1];

/** Messages whose metadata is requested in one FETCH. */
const TOGETHER = 500;

/**
 * Metadata of those messages of the selected folder that may be requested now, by `fetch`; fewer are requested together where a
 * connection has ended at one of them.
 * @throws MailError
 */
export async function fetchMetaDue(
  ctx: MetaContext,
  selected: SelectedMail,
  uids: readonly number[],
  fetch: (uids: number[]) => Promise<MessageMeta[]>,
): Promise<MessageMeta[]> {
  const undelivered = undeliveredIn(ctx, selected);
  const metas: MessageMeta[] = [];
  for (const group of groupsOf(uids.filter(undelivered.isDue), undelivered)) {
    const fetched = await withLoss(
      ctx,
      () => fetch(group),
      (error) => undelivered.lost(group, error),
    );
    for (const meta of fetched) metas.push(meta);
  }
  return metas;
}

/**
 * Metadata of the messages of the selected folder with UIDs from `from` to below `below`, ascending, without those that the server
 * does not deliver and that are not due.
 * @throws MailError
 */
export async function fetchMetaFrom(
  ctx: MetaContext,
  selected: SelectedMail,
  { from, below }: { from: number; below: number },
): Promise<MessageMeta[]> {
  const { session } = ctx;
  const undelivered = undeliveredIn(ctx, selected);
  if (!undelivered.isSuspect(from)) {
    return withLoss(ctx, () => fetchMeta(session, from, below - 1, undelivered.failed), undelivered.lostUnnamed);
  }
  const uids = (await listUids(session)).uids.filter((uid) => uid >= from && uid < below);
  undelivered.name(uids.length <= TOGETHER ? uids : []);
  return byUid(await fetchMetaDue(ctx, selected, uids, (group) => fetchMetaOf(session, group, undelivered.failed)));
}

function* groupsOf(uids: readonly number[], { together }: Pick<Undelivered, 'together'>): Generator<number[]> {
  let group: number[] = [];
  let most = TOGETHER;
  for (const uid of uids) {
    const allowed = together(uid);
    if (group.length > 0 && group.length >= Math.min(most, allowed)) {
      yield group;
      group = [];
      most = TOGETHER;
    }
    group.push(uid);
    most = Math.min(most, allowed);
  }
  if (group.length > 0) yield group;
}

/** Runs a command; `onLost` gets the error when the connection ended for another reason than its token. */
async function withLoss<T>(
  { session }: MetaContext,
  work: () => Promise<T>,
  onLost: (error: unknown) => void,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!session.client.usable && !isTokenEnd(session.token, error)) onLost(error);
    throw error;
  }
}
