import { upsertSearchAttributes } from '@temporalio/workflow';
import { SEARCH_KEYS, searchableBy } from './names.ts';

/** Lets operators find the run by its account, by other ids and, if given, by its state. */
export function setSearchAttributes(accountId: string, state?: string, ids: readonly string[] = []): void {
  upsertSearchAttributes([
    ...searchableBy(accountId, ids),
    ...(state === undefined ? [] : [{ key: SEARCH_KEYS.mailStatus, value: state }]),
  ]);
}
