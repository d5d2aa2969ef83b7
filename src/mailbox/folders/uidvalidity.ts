import { inLease } from '../../db/lease.ts';
import { fetchMeta, type MessageMeta } from '../../imap/fetch.ts';
import type { SelectedFolder } from '../../imap/select.ts';
import { changeEmails } from '../change-emails.ts';
import type { SyncContext } from '../context.ts';
import { matchMessages } from '../ingest/match.ts';
import { type FolderState, updateFolder } from '../store/folders.ts';
import { renumberLocations, locationsIn } from '../store/locations.ts';

/**
 * UIDVALIDITY has changed (RFC 3501 2.3.1.1): no UID of before counts any more. Each message is found again by the
 * server's own id, else by Message-ID, size and INTERNALDATE, and keeps its email; what is not found again is left as
 * vanished, and what was not known is taken in as new mail by the sync that follows, since the cursor stays below it.
 */
export async function remapUids(ctx: SyncContext, folder: FolderState, selected: SelectedFolder): Promise<void> {
  const metas = selected.exists === 0 ? [] : await fetchMeta(ctx.session, 1);
  const values = await inLease(ctx.db, ctx.lease, async (tx) => {
    const now = new Date();
    const old = await locationsIn(tx, folder.id);
    // Seen as from another folder in which all has vanished, since all of it is to be found again.
    const found = matchMessages(
      '',
      metas,
      old.map((location) => ({ ...location, vanishedAt: now })),
    );
    const moves: { from: number; to: number }[] = [];
    const strangers: MessageMeta[] = [];
    for (const meta of metas) {
      const it = found.get(meta.uid);
      const from = it && it.kind !== 'new' ? it.from : null;
      if (from) moves.push({ from: from.uid, to: meta.uid });
      else strangers.push(meta);
    }
    const emailIds = old.flatMap((location) => location.emailId ?? []);
    await changeEmails(tx, ctx.lease, emailIds, now, () => renumberLocations(tx, folder.id, moves, now));
    const cursor = cursorBelow(ctx, folder, selected, metas, strangers);
    const changed = {
      uidValidity: selected.uidValidity,
      uidNext: cursor,
      baselineUidNext: cursor,
      highestModseq: null,
      scannedFrom: folder.scannedFrom === 1 ? 1 : cursor,
    };
    await updateFolder(tx, folder.id, changed);
    return changed;
  });
  Object.assign(folder, values);
}

/**
 * The cursor under the new UIDs: below the first message that is new. Baseline that was never scanned cannot be found
 * again; there, what is older than the connect stays baseline.
 */
function cursorBelow(
  ctx: SyncContext,
  folder: FolderState,
  selected: SelectedFolder,
  metas: MessageMeta[],
  strangers: MessageMeta[],
): number {
  const next = selected.uidNext ?? (metas.at(-1)?.uid ?? 0) + 1;
  const scanned = folder.scannedFrom === 1;
  const fresh = strangers.filter((meta) => scanned || meta.internalDate >= ctx.account.connectedAt);
  return fresh.reduce((min, meta) => Math.min(min, meta.uid), next);
}
