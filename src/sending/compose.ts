import { buffer, text } from 'node:stream/consumers';
import { ApiError } from '../contract/errors.ts';
import type { Recipient, SendInput } from '../contract/sending.ts';
import type { Queryable } from '../db/client.ts';
import { findReplyTarget } from '../db/reply-target.ts';
import type { SyncSettings } from '../mailbox/settings.ts';
import { trackMessage } from '../mime/tracking.ts';
import { compose, envelopeOf } from '../mime/write/compose.ts';
import {
  type Envelope,
  type OutgoingMessage,
  messageFromInput,
  mergeInput,
  type RepliedTo,
} from '../mime/write/outgoing-message.ts';
import { draftForSending, readDraftMessage, withoutDraftHeaders } from '../mime/write/stored-draft.ts';
import type { Storage } from '../storage/storage.ts';

/** What composing needs. */
export interface ComposeDeps {
  db: Queryable;
  storage: Storage;
  /** where large files of a draft are put while it is read */
  tempDir: string;
  /** base of tracking links, without a trailing slash */
  publicUrl: string;
}

/** A mail in the two forms that it takes. */
export interface ComposedSend {
  /** as the Sent folder keeps it: with Bcc, without tracking */
  sentCopy: Buffer;
  /** as the recipients get it: without Bcc, with tracking */
  delivered: Buffer;
  envelope: Envelope;
  /** targets of the links that were rewritten, by their number */
  links: string[];
}

/** What is tracked, under which id. */
export interface Tracking {
  trackingId: string;
  options: NonNullable<SendInput['tracking_options']>;
}

/** Reads back what the caller sent. */
export async function loadInput(storage: Storage, key: string): Promise<SendInput> {
  return JSON.parse(await text(await storage.get(key))) as SendInput;
}

/** The address that a mail is from: the caller's wish over the mailbox's own. */
export function senderOf(settings: Pick<SyncSettings, 'owner'>, input: Pick<SendInput, 'from'>): Recipient {
  const { display_name, email } = input.from ?? {};
  return {
    ...settings.owner,
    ...(email === undefined ? {} : { email }),
    ...(display_name === undefined ? {} : { display_name }),
  };
}

/**
 * What `reply_to_message_id` leads to.
 * @throws ApiError invalid_parameters when it is an `email_…` id of no email
 */
export async function repliedTo(db: Queryable, accountId: string, input: SendInput): Promise<RepliedTo | null> {
  if (!input.reply_to_message_id) return null;
  const target = await findReplyTarget(db, accountId, input.reply_to_message_id);
  if (!target) throw new ApiError('invalid_parameters', 'reply_to_message_id is no email of this account');
  return target.messageId ? { messageId: target.messageId, references: target.references } : null;
}

/** Composes what a caller sent. */
export async function composeInput(
  deps: ComposeDeps,
  accountId: string,
  settings: SyncSettings,
  input: SendInput,
  given: { messageId: string; date: Date; tracking: Tracking | null },
): Promise<ComposedSend> {
  const reply = await repliedTo(deps.db, accountId, input);
  const { messageId, date } = given;
  const letter = messageFromInput(input, { from: senderOf(settings, input), messageId, date, reply });
  return inBothForms(deps, letter, given.tracking);
}

/** Composes a draft: byte for byte as it lies in Drafts but for its headers, save that tracking changes its HTML. */
export async function composeDraft(
  deps: ComposeDeps,
  settings: SyncSettings,
  source: Buffer,
  given: { messageId: string; date: Date; tracking: Tracking | null },
): Promise<ComposedSend> {
  const { messageId, date, tracking } = given;
  if (tracking) {
    const draft = await readDraftMessage(source, { from: settings.owner, messageId, date }, deps.tempDir);
    const letter = withoutDraftHeaders(draft);
    return inBothForms(deps, { ...letter, messageId, date }, tracking);
  }
  const own = { from: settings.owner, messageId, date };
  const { sentCopy, delivered, envelope } = await draftForSending(source, own, deps.tempDir);
  return { sentCopy, delivered, envelope, links: [] };
}

async function inBothForms(
  { publicUrl }: ComposeDeps,
  letter: OutgoingMessage,
  tracking: Tracking | null,
): Promise<ComposedSend> {
  const sentCopy = await compose(letter, { keepBcc: true });
  const envelope = envelopeOf(letter);
  if (!tracking) {
    const delivered = letter.bcc.length === 0 ? sentCopy : await compose(letter, { keepBcc: false });
    return { sentCopy, delivered, envelope, links: [] };
  }
  const { opens = false, links = false, custom_domain } = tracking.options;
  const baseUrl = trackingBase(publicUrl, custom_domain);
  const tracked = trackMessage(letter, { trackingId: tracking.trackingId, opens, links, baseUrl });
  return { sentCopy, delivered: await compose(tracked.message, { keepBcc: false }), envelope, links: tracked.links };
}

/** `custom_domain` takes the place of the host (CONTRACT "Tracking"). */
function trackingBase(publicUrl: string, customDomain: string | undefined): string {
  if (!customDomain) return publicUrl;
  const url = new URL(publicUrl);
  url.port = '';
  url.host = customDomain;
  return url.href.replace(/\/+$/, '');
}

/** The raw message of a draft as a letter, with what the caller sent in the place of its fields. */
export async function composeUpdate(
  deps: ComposeDeps,
  accountId: string,
  settings: SyncSettings,
  source: Buffer,
  input: SendInput,
  given: { messageId: string; date: Date },
): Promise<{ message: Buffer; letter: OutgoingMessage }> {
  const { messageId, date } = given;
  const kept = await readDraftMessage(source, { from: settings.owner, messageId, date }, deps.tempDir);
  const from = senderOf({ owner: kept.from.email ? kept.from : settings.owner }, input);
  const reply = input.reply_to_message_id === undefined ? undefined : await repliedTo(deps.db, accountId, input);
  const letter = mergeInput(kept, input, { from, messageId, date, reply });
  return { letter, message: await compose(letter, { keepBcc: true }) };
}

/** The bytes of a stored message. */
export async function loadSource(storage: Storage, key: string): Promise<Buffer> {
  return buffer(await storage.get(key));
}
