import { upsertSearchAttributes } from '@temporalio/workflow';
import { SEARCH_KEYS } from './names.ts';

/** Lets operators find the run by its account and, if given, by the state that it is in. */
export function setSearchAttributes(accountId: string, state?: string): void {
  upsertSearchAttributes([
    { key: SEARCH_KEYS.mailAccount, value: accountId },
    ...(state === undefined ? [] : [{ key: SEARCH_KEYS.mailStatus, value: state }]),
  ]);
}
