import { inLease } from '../db/lease.ts';
import { MAX_UID } from '../imap/fetch.ts';
import type { UidRange } from '../imap/imapflow-patches.ts';
import { fetchUids, searchUids } from '../imap/search.ts';
import { MailError } from '../mail-error.ts';
import { changeEmails } from './change-emails.ts';
import type { SyncContext } from './context.ts';
import { assertSelected, type Selection } from './selected.ts';
import { countLocations, type FolderState, recountLocations } from './store/folders.ts';
import { emailsAt, knownUids, markVanished } from './store/locations.ts';

/** Messages that are marked as vanished in one transaction. */
const VANISHED_BATCH = 500;

/**
 * Where the number of messages does not match the stored one, compares the UIDs. Marks those that have vanished; true
 * when there are any.
 */
export async function findVanished(
  ctx: SyncContext,
  folder: FolderState,
  selection: Selection,
  everyFlag: boolean,
): Promise<boolean> {
  const counted = await countLocations(ctx.db, folder.id);
  // While the baseline is not scanned, fewer stored messages than there are is no sign.
  const scanned = folder.scannedFrom === 1;
  const arrived = selection.uidNext === null || selection.uidNext > (folder.uidNext ?? 1);
  if ((counted === selection.exists && !arrived) || (counted === 0 && !scanned)) return false;
  if (!scanned && selection.highestModseq !== null && ctx.session.qresync && !everyFlag) return false;
  const present = new Set(await allUids(ctx, selection));
  const known = await knownUids(ctx.db, folder.id, 1, folder.uidNext ?? 1);
  if (known.length !== counted && !arrived) {
    await inLease(ctx.db, ctx.lease, (tx) => recountLocations(tx, folder.id));
  }
  return applyVanished(
    ctx,
    folder,
    known.filter((uid) => !present.has(uid)),
  );
}

/** Every UID of the folder. A response that leaves out some must not be taken for deleted messages. */
async function allUids(ctx: SyncContext, selection: Selection): Promise<number[]> {
  assertSelected(ctx.session, selection);
  const searched = await searchUids(ctx.session, MAX_UID + 1);
  const { mailbox } = ctx.session.client;
  if (!mailbox) throw new MailError('provider_error', 'imap', 'the connection was closed');
  const exists = Math.min(selection.exists, mailbox.exists);
  if (searched.length >= exists) return searched;
  const fetched = await fetchUids(ctx.session, MAX_UID + 1);
  if (fetched.length >= exists || fetched.length === searched.length) return fetched;
  throw new MailError('provider_error', 'imap', 'the IMAP server left out messages');
}

/** Marks what the server reports as vanished; true when emails left the folder. */
export async function applyVanishedRanges(ctx: SyncContext, folder: FolderState, ranges: UidRange[]): Promise<boolean> {
  return applyVanished(ctx, folder, await onlyKnown(ctx, folder, ranges));
}

/** Of the reported ranges, the UIDs that are stored: servers report UIDs that the folder never had, too. */
async function onlyKnown(ctx: SyncContext, folder: FolderState, vanished: UidRange[]): Promise<number[]> {
  if (vanished.length === 0) return [];
  const stored = await knownUids(ctx.db, folder.id, 1, folder.uidNext ?? 1);
  const ranges = [...vanished].sort((a, b) => a.from - b.from);
  let at = 0;
  return stored.filter((uid) => {
    while (at < ranges.length && (ranges[at] as UidRange).to < uid) at++;
    const range = ranges[at];
    return range !== undefined && range.from <= uid;
  });
}

/** Marks messages as vanished; true when there are any. */
async function applyVanished(ctx: SyncContext, folder: FolderState, uids: number[]): Promise<boolean> {
  for (let start = 0; start < uids.length; start += VANISHED_BATCH) {
    const batch = uids.slice(start, start + VANISHED_BATCH);
    await inLease(ctx.db, ctx.lease, async (tx) => {
      const now = new Date();
      const emails = await emailsAt(tx, folder.id, batch);
      await changeEmails(tx, { lease: ctx.lease, emailIds: [...emails.values()], now }, () =>
        markVanished(tx, folder.id, batch, now),
      );
    });
  }
  return uids.length > 0;
}
