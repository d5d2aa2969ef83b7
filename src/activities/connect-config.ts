import type { AuthIntent } from '../contract/account.ts';
import { countUnfinished, createImport } from '../db/coordination/import-state.ts';
import type { Tx } from '../db/driver/client.ts';
import type { StoredConfig } from '../db/queries/accounts.ts';
import { DAY } from '../duration.ts';
import { newId } from '../new-id.ts';

/** The part of a connect that says what to store. */

/** `initial_sync_days` when left out. */
const DEFAULT_SYNC_DAYS = 30;

/** What `config` says of columns of the account. */
export const storedConfigOf = ({
  config: { folders, watch, retention_days: retentionDays } = {},
}: AuthIntent): StoredConfig => ({
  folderChoice: folders,
  watch,
  retentionDays,
});

/** The days of the initial sync; null: not requested. */
export function initialSyncDaysOf({ config }: AuthIntent): number | null {
  return config?.initial_sync_enable ? (config.initial_sync_days ?? DEFAULT_SYNC_DAYS) : null;
}

/** Queues the import that `config.history` asks for, unless one of the account is unfinished; `startAccount` starts it. */
export async function requestHistory(tx: Tx, accountId: string, { config }: AuthIntent, at: Date): Promise<void> {
  const { history = 'none' } = config ?? {};
  if (history === 'none' || (await countUnfinished(tx, accountId)) > 0) return;
  const since = history === 'all' ? null : new Date(at.getTime() - history * DAY);
  await createImport(tx, { id: newId('import'), accountId, since, until: null, folders: null });
}
