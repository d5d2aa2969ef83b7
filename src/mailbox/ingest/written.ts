import { fetchMetaOf } from '../../imap/fetch.ts';
import type { SelectedFolder } from '../../imap/select.ts';
import type { SyncContext } from '../context.ts';
import type { FolderState } from '../store/folders.ts';
import { ingest } from './ingest.ts';

/**
 * Takes messages that we have just put into the selected folder into the store, with their events; whoever comes
 * second, this or the watch, finds them there. Under another UIDVALIDITY than the store knows they are left to the
 * watch, which maps the folder anew first.
 */
export async function ingestAppended(
  ctx: SyncContext,
  folder: FolderState,
  selected: SelectedFolder,
  uids: number[],
): Promise<void> {
  if (folder.uidValidity !== null && folder.uidValidity !== 0 && folder.uidValidity !== selected.uidValidity) return;
  await ingest(ctx, folder, await fetchMetaOf(ctx.session, uids), 'written');
}
