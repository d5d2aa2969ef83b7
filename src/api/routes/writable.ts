import { ApiError } from '../../contract/errors.ts';
import { getAccountState } from '../../db/accounts.ts';
import type { Queryable } from '../../db/client.ts';

/**
 * Lets a call pass that changes the mailbox; writes to an `errored` account are tried (CONTRACT "Accounts").
 * @throws ApiError not_found; invalid_credentials when the provider refused the account's login
 */
export async function requireWritable(db: Queryable, accountId: string): Promise<void> {
  const account = await getAccountState(db, accountId);
  if (!account) throw new ApiError('not_found', 'there is no account with that id');
  if (account.status === 'disconnected') {
    throw new ApiError('invalid_credentials', 'the provider refused the login of this account: connect it again');
  }
}
