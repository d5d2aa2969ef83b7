import type { EventType } from '../contract/events.ts';
import type { FolderRole } from '../contract/folder.ts';

/** Where an email lies and how it looks, before or after a change. */
export interface EmailState {
  /** it has left a folder; where it went is not known yet, and `shown` is as it was before */
  missing: boolean;
  /** folder ids as shown to callers, sorted */
  shown: string[];
  /** roles of the folders that hold it and are not on their way out */
  roles: FolderRole[];
  isUnread: boolean;
  isDraft: boolean;
}

/** What one change of an email means. */
export interface Transition {
  isDraft: boolean;
  /** in the order in which they are told */
  events: EventType[];
}

/**
 * The events of a change (SPEC "Email events"). Where a mail that has left a folder lies now is told when it is known
 * whether it moved or was deleted, so that a move is one event however many folders it touches; drafts have events of their own and none for their flags.
 */
export function transition(before: EmailState, after: EmailState): Transition {
  if (after.missing) {
    const told = !before.isDraft && before.isUnread !== after.isUnread;
    return { isDraft: before.isDraft, events: told ? ['email.update'] : [] };
  }
  const isDraft = after.roles.includes('DRAFTS');
  if (before.isDraft && isDraft) return { isDraft, events: [] };
  if (isDraft) return { isDraft, events: ['email.draft.new'] };
  if (before.isDraft) {
    // Sending by moving the draft is how some programs send: the mail in Sent is then new (SPEC "email.new").
    return { isDraft, events: ['email.draft.delete', after.roles.includes('SENT') ? 'email.new' : 'email.update'] };
  }
  const changed = before.isUnread !== after.isUnread || before.shown.join() !== after.shown.join();
  return { isDraft, events: changed ? ['email.update'] : [] };
}
