import { defineSearchAttributeKey, SearchAttributeType } from '@temporalio/common';
import { upsertSearchAttributes } from '@temporalio/workflow';
import { SEARCH_ATTRIBUTES } from './names.ts';

const mailAccount = defineSearchAttributeKey(SEARCH_ATTRIBUTES.mailAccount, SearchAttributeType.KEYWORD);
const mailStatus = defineSearchAttributeKey(SEARCH_ATTRIBUTES.mailStatus, SearchAttributeType.KEYWORD);

/** Lets operators find the run by its account and, if given, by the state that it is in. */
export function setSearchAttributes(accountId: string, state?: string): void {
  upsertSearchAttributes([
    { key: mailAccount, value: accountId },
    ...(state === undefined ? [] : [{ key: mailStatus, value: state }]),
  ]);
}
