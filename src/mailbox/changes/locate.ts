import { ApiError } from '../../contract/errors.ts';
import { inLease } from '../../db/lease.ts';
import { openFolder } from '../../imap/select.ts';
import { FolderMissing, MailError } from '../../mail-error.ts';
import { changeEmails } from '../change-emails.ts';
import type { SyncContext } from '../context.ts';
import { type EmailPlace, loadPlaces } from '../store/email-locations.ts';
import { markVanished } from '../store/locations.ts';
import { lookOnce } from '../watch.ts';

/** A mail is not where it was: another program moved or deleted it, or a folder is another one by now. */
export class Displaced extends Error {
  override readonly name = 'Displaced';
  readonly place: EmailPlace;
  /** the folder is the same and does not hold this UID any more */
  readonly gone: boolean;
  /** paths of folders that have to be looked at whatever their counters say */
  readonly look: string[];

  constructor(place: EmailPlace, options: { gone: boolean; look?: string[] }) {
    super('the mail is not where it was');
    this.place = place;
    this.gone = options.gone;
    this.look = [place.path, ...(options.look ?? [])];
  }
}

export type Places = readonly [EmailPlace, ...EmailPlace[]];

/** Looks at the mailbox before a mail that other programs keep moving is given up. */
const LOOKS = 4;

/**
 * Runs a change of an email where it lies now. When it turns out to lie elsewhere, the whole mailbox is looked at and
 * the change is made there: a conflict with another mail program ends in the truth.
 * @throws ApiError not_found when the email is gone for good; MailError
 */
export async function whereItLies<T>(
  ctx: SyncContext,
  emailId: string,
  change: (places: Places) => Promise<T>,
): Promise<T> {
  for (let looks = 0; ; looks++) {
    const [first, ...others] = await placesOf(ctx, emailId);
    let look: string[] = [];
    try {
      if (first) return await change([first, ...others]);
    } catch (error) {
      if (!(error instanceof Displaced)) throw error;
      look = error.look;
      if (error.gone) await noteGone(ctx, emailId, error.place);
    }
    if (looks === LOOKS) {
      throw new MailError('provider_error', 'imap', 'other mail programs keep moving this email: try again');
    }
    await lookOnce(ctx, new Set(look));
  }
}

async function placesOf(ctx: SyncContext, emailId: string): Promise<EmailPlace[]> {
  const places = await loadPlaces(ctx.db, ctx.account.id, emailId);
  if (!places) throw new ApiError('not_found', 'there is no email with that id');
  return places;
}

/**
 * Selects the folder of a place for writing: a UID is never used under another UIDVALIDITY.
 * @throws Displaced when the folder is gone or has another UIDVALIDITY; MailError
 */
export async function openPlace(ctx: SyncContext, place: EmailPlace): Promise<void> {
  const selected = await openFolder(ctx.session, place.path).catch((error: unknown) => {
    throw error instanceof FolderMissing ? new Displaced(place, { gone: false }) : error;
  });
  if (selected.uidValidity !== place.uidValidity) throw new Displaced(place, { gone: false });
}

/** The server says that the mail has left this folder; where it went is told by the look that follows. */
async function noteGone(ctx: SyncContext, emailId: string, { folderId, uid }: EmailPlace): Promise<void> {
  await inLease(ctx.db, ctx.lease, async (tx) => {
    const now = new Date();
    await changeEmails(tx, ctx.lease, [emailId], now, () => markVanished(tx, folderId, [uid], now));
  });
}
