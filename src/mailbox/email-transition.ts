import type { EventType } from '../contract/events.ts';
import { flagsDiffer } from '../contract/flags.ts';
import type { FolderRole } from '../contract/folder.ts';

/** Where an email is and how it looks, before or after a change. */
export interface EmailState {
  /** it has left a folder; where it went is not known yet, and `shown` is as it was before */
  missing: boolean;
  /** folder ids as shown to callers, sorted */
  shown: string[];
  /** of the folders that callers were shown, one was deleted since; it is not in `shown` */
  inDeletedFolder?: boolean;
  /** roles of the folders that hold it, pending removals left out */
  roles: FolderRole[];
  isUnread: boolean;
  /** further flags; null: not known, and no event says that they have become known */
  flags: string[] | null;
  isDraft: boolean;
}

/** What one change of an email means. */
export interface Transition {
  isDraft: boolean;
  /** in the order in which they are emitted */
  events: EventType[];
}

/**
 * The events of a change. An email that has left a folder has no event about folders until it is known whether it moved or
 * was deleted: a move is one event, however many folders it touches. Drafts have their own events, and none for their
 * flags.
 */
export function transition(before: EmailState, after: EmailState): Transition {
  if (after.missing) {
    return { isDraft: before.isDraft, events: !before.isDraft && isFlagged(before, after) ? ['email.update'] : [] };
  }
  const isDraft = after.roles.includes('DRAFTS');
  if (before.isDraft && isDraft) return { isDraft, events: [] };
  if (isDraft) return { isDraft, events: ['email.draft.new'] };
  if (before.isDraft) {
    // Some programs send by moving the draft: the email in Sent is then new, with email.new.
    return { isDraft, events: ['email.draft.delete', after.roles.includes('SENT') ? 'email.new' : 'email.update'] };
  }
  const changed = isFlagged(before, after) || before.shown.join() !== after.shown.join() || before.inDeletedFolder;
  return { isDraft, events: changed ? ['email.update'] : [] };
}

/** Whether flags that an email shows have changed. */
function isFlagged(before: EmailState, after: EmailState): boolean {
  return before.isUnread !== after.isUnread || flagsDiffer(before.flags, after.flags);
}
