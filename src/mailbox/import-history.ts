import { countBatch } from '../db/coordination/import-state.ts';
import type { SyncContext } from './context.ts';
import { countMail, type ImportOptions, type ImportSteps, importMail } from './import.ts';
import { type ImportRun, pendingFolders, saveFolderDone, saveRemaining } from './store/import-folders.ts';
import { syncOnce } from './sync-pass.ts';

/**
 * Reads what is left of an import: counts the messages of its folders, then imports them. It ends when a sync pass has found
 * no message that was moved, while it ran, to a folder that had been read. False: `signal` aborted, and something may be left.
 * @throws PartUnavailable, MailError as `importMail`; ImportStopped when the import is paused or cancelled
 */
export async function importHistory(ctx: SyncContext, run: ImportRun, signal: AbortSignal): Promise<boolean> {
  for (let isSettled = false; ; ) {
    const pending = await pendingFolders(ctx.db, run);
    // asked before the signal: the pass over all folders may take longer than an execution lasts
    if (pending.length === 0 && isSettled) return true;
    if (signal.aborted) return false;
    if (pending.length === 0) {
      await syncOnce(ctx, {});
      isSettled = true;
      continue;
    }
    isSettled = false;
    const uncounted = pending.filter(({ isCounted }) => !isCounted).map(({ id }) => id);
    await countMail(ctx, optionsOf(ctx, run, { folders: uncounted, signal }));
    await importMail(ctx, optionsOf(ctx, run, { folders: pending.map(({ id }) => id), signal }));
  }
}

function optionsOf(
  { db }: SyncContext,
  { id: importId, since, until }: ImportRun,
  { folders, signal }: { folders: string[]; signal: AbortSignal },
): ImportOptions & { run: ImportSteps } {
  const ref = (folderId: string) => ({ importId, folderId });
  const run: ImportSteps = {
    importId,
    folders: new Set(folders),
    onListed: (folderId, left) => saveRemaining(db, ref(folderId), left),
    onSkipped: (folderId, count) => countBatch(db, ref(folderId), { imported: 0, read: count }),
    onDone: (folderId, readBelow) => saveFolderDone(db, ref(folderId), readBelow),
  };
  return { since, until, signal, onProgress: () => {}, run };
}
