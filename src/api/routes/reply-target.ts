import { ApiError } from '../../contract/errors.ts';
import type { SendInput } from '../../contract/sending.ts';
import type { Queryable } from '../../db/client.ts';
import { findReplyTarget } from '../../db/reply-target.ts';

/**
 * Lets a call pass whose `reply_to_message_id`, if any, can be answered.
 * @throws ApiError invalid_parameters
 */
export async function requireReplyTarget(db: Queryable, accountId: string, input: SendInput): Promise<void> {
  const reference = input.reply_to_message_id;
  if (reference && !(await findReplyTarget(db, accountId, reference))) {
    throw new ApiError('invalid_parameters', 'reply_to_message_id is no email of this account');
  }
}
