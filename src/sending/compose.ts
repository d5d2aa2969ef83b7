import { randomBytes } from 'node:crypto';
import { buffer } from 'node:stream/consumers';
import { createLimiter } from '../async.ts';
import { withUnicodeDomain } from '../mail-wire/addresses.ts';
import type { Attendee } from '../contract/email.ts';
import { ApiError } from '../contract/errors.ts';
import type { Recipient, SendInput } from '../contract/sending.ts';
import type { Db } from '../db/driver/client.ts';
import type { SyncSettings } from '../mailbox/settings.ts';
import { messageIdOf, writableId } from '../mime/message-ids.ts';
import { trackMessage } from '../mime/tracking.ts';
import { compose, envelopeOf } from '../mime/write/compose.ts';
import { forwardAsFile, forwardInline } from '../mime/write/forward.ts';
import { type Envelope, type OutgoingMessage, messageFromInput, mergeInput } from '../mime/write/outgoing-message.ts';
import {
  draftForSending,
  readDraftMessage,
  readForwarded,
  withoutDraftHeaders,
  withoutTracking,
} from '../mime/write/stored-draft.ts';
import type { Secrets } from '../security/secrets.ts';
import { ObjectDamaged } from '../storage/encrypted.ts';
import { type Storage, StorageMissing } from '../storage/storage.ts';
import { loadDraft, storedSource } from '../outgoing/draft-state.ts';
import { messagePartOf } from '../outgoing/keyed-id.ts';
import { loadInput, type OutgoingInput } from '../outgoing/outgoing-input.ts';
import type { SendRow } from '../outgoing/send-state.ts';

/** The dependencies of composing. */
export interface ComposeDeps {
  db: Db;
  storage: Storage;
  /** holds large files of a draft while it is read */
  tempDir: string;
  /** base of tracking links, without a trailing slash */
  publicUrl: string;
  secrets: Secrets;
}

/** The Message-ID of a send, identical for each of its attempts. `part`: see src/outgoing/keyed-id.ts. */
export function ownMessageId({ secrets }: Pick<ComposeDeps, 'secrets'>, fromAddress: string, part: string): string {
  return messageIdOf(fromAddress, secrets.digest(`Message-ID of ${part}`).subarray(0, 16));
}

/** A send with the settings of its account. */
export interface LoadedSend {
  send: SendRow;
  settings: SyncSettings;
}

/** A message in the form that is submitted. */
export interface OutgoingForm {
  /** the form for the recipients: without Bcc, with tracking */
  delivered: Buffer;
  envelope: Envelope;
  /** targets of the rewritten links, by their number */
  links: string[];
}

interface BothForms extends OutgoingForm {
  /** the form for the Sent folder: with Bcc, without tracking */
  sentCopy: Buffer;
}

/** The fields of a message that this service sets. */
export interface Stamp {
  /** the mailbox's address for From, unless the caller or the draft names another */
  owner: SyncSettings['owner'];
  /** with its angle brackets */
  messageId: string;
  date: Date;
}

/** The message of a send, whose copy for Sent is stored. */
export interface ComposedSend {
  message: OutgoingForm;
  /** the copy for Sent */
  sentCopy: Buffer;
  messageId: string;
  /** of the copy for Sent */
  storageKey: string;
  bcc: Attendee[];
  /** the email of the draft that is sent; null when no draft is sent */
  draftEmailId: string | null;
}

/**
 * Composes the message of a send and stores its copy for Sent.
 * @throws ApiError not_found when its draft or input no longer exists; invalid_parameters for a draft without recipients
 */
export async function composeSend(deps: ComposeDeps, { send, settings }: LoadedSend): Promise<ComposedSend> {
  const source = send.draftId ? await draftSource(deps, send, send.draftId) : await inputSource(deps, send);
  const inTurn = source.isLarge ? composeLarge : (work: () => Promise<ComposedSend>) => work();
  return inTurn(async () => {
    const { forms, messageId, bcc } = await source.compose(settings.owner);
    const { sentCopy, ...message } = forms;
    // a separate file per attempt: the file of the submitted message is never overwritten
    const storageKey = `${send.accountId}/sent/${send.id}.${randomBytes(4).toString('hex')}.eml`;
    await deps.storage.put(storageKey, sentCopy);
    return { message, sentCopy, messageId, storageKey, bcc, draftEmailId: source.draftEmailId };
  });
}

/** Limits how many large messages are composed at a time, since each is in memory several times over. */
const composeLarge = createLimiter(2);
const LARGE_BYTES = 1024 * 1024;

async function isLarge(storage: Storage, key: string): Promise<boolean> {
  return ((await storage.size(key)) ?? 0) >= LARGE_BYTES;
}

/** The draft or the input from which a send is composed. */
interface Source {
  /** it, a stored file of it, or the email that it forwards is */
  isLarge: boolean;
  draftEmailId: string | null;
  compose(owner: Stamp['owner']): Promise<{ forms: BothForms; messageId: string; bcc: Attendee[] }>;
}

async function draftSource(deps: ComposeDeps, send: SendRow, draftId: string): Promise<Source> {
  const draft = await loadDraft(deps.db, send.accountId, draftId);
  const stored = draft?.emailId ? await storedSource(deps.db, send.accountId, draft.emailId) : undefined;
  if (draft?.state !== 'active' || !draft.emailId || !stored) throw new ApiError('not_found', 'no draft has this id');
  return {
    isLarge: await isLarge(deps.storage, stored.key),
    draftEmailId: draft.emailId,
    async compose(owner) {
      const messageId =
        send.messageId ?? writableId(draft.messageId) ?? ownMessageId(deps, owner.email, messagePartOf(send.id));
      const source = await loadDraftSource(deps.storage, stored.key);
      const forms = await composeDraft(deps, source, { owner, messageId, date: new Date() }, trackingOf(send));
      const { withoutAddress } = forms.envelope;
      if (withoutAddress !== undefined) throw new ApiError('invalid_parameters', withoutAddress);
      if (forms.envelope.to.length === 0) throw new ApiError('invalid_parameters', 'to: the draft has no recipients');
      return { forms, messageId, bcc: stored.bcc };
    },
  };
}

async function inputSource(deps: ComposeDeps, send: SendRow): Promise<Source> {
  const { storage } = deps;
  const { inputKey: key } = send;
  if (!key) throw new ApiError('not_found', 'this send no longer exists');
  // a large input is read when its turn comes
  const read = (await isLarge(storage, key)) ? undefined : await loadInput(storage, key);
  return {
    isLarge: !read || namesLarge(read),
    draftEmailId: null,
    async compose(owner) {
      const outgoing = read ?? (await loadInput(storage, key));
      const { from, bcc = [] } = outgoing.input;
      const messageId = send.messageId ?? ownMessageId(deps, from?.email ?? owner.email, messagePartOf(send.id));
      const message = await messageOf(deps, outgoing, { owner, messageId, date: new Date() });
      return { forms: await inBothForms(deps, message, trackingOf(send)), messageId, bcc: bcc.map(attendeeOf) };
    },
  };
}

/** Whether a stored file of an input, or the email that it forwards, is large. */
function namesLarge({ files = [], forwarded }: OutgoingInput): boolean {
  const sizes = [forwarded?.size ?? 0, ...files.map((file) => file?.size ?? 0)];
  return sizes.some((size) => size >= LARGE_BYTES);
}

/** The options of tracking, and its id. */
interface Tracking {
  trackingId: string;
  options: NonNullable<SendInput['tracking_options']>;
}

function trackingOf({ trackingId, tracking }: SendRow): Tracking | null {
  return trackingId && tracking ? { trackingId, options: tracking } : null;
}

function attendeeOf({ email, display_name = '' }: Recipient): Attendee {
  return { identifier: withUnicodeDomain(email), display_name, identifier_type: 'EMAIL_ADDRESS' };
}

/** The sender of a message: what the caller gave, else the mailbox's own. */
function senderOf(owner: Recipient, { from }: Pick<SendInput, 'from'>): Recipient {
  const { display_name, email } = from ?? {};
  return {
    ...owner,
    ...(email === undefined ? {} : { email }),
    ...(display_name === undefined ? {} : { display_name }),
  };
}

/**
 * The message that a caller requested, with what it forwards.
 * @throws ApiError not_found when that is no longer stored
 */
export async function messageOf(
  { storage, tempDir }: Pick<ComposeDeps, 'storage' | 'tempDir'>,
  { input, repliedTo = null, forwarded, files }: OutgoingInput,
  { owner, messageId, date }: Stamp,
): Promise<OutgoingMessage> {
  const parent = forwarded?.messageId
    ? { messageId: forwarded.messageId, references: forwarded.references }
    : repliedTo;
  const message = messageFromInput(input, { from: senderOf(owner, input), messageId, date, reply: parent });
  await fillFiles(storage, message, files);
  if (!forwarded) return message;
  const stored = await loadStored(storage, forwarded.storageKey, 'forwarded email');
  const source = forwarded.tracked ? await withoutTracking(stored, forwarded.tracked, tempDir) : stored;
  return input.forward_as === 'attachment'
    ? forwardAsFile(message, forwarded.subject, source)
    : forwardInline(message, await readForwarded(source, tempDir));
}

/** Fills in the stored files that attachments name. @throws ApiError not_found when one is no longer stored */
async function fillFiles(storage: Storage, { attachments }: OutgoingMessage, files: OutgoingInput['files'] = []) {
  for (const [index, file] of files.entries()) {
    const attachment = attachments[index];
    if (file && attachment) attachment.content = await loadStored(storage, file.storageKey, 'attachment');
  }
}

/** A stored draft, whose fields the caller's input replaces. */
export async function updatedMessage(
  { storage, tempDir }: Pick<ComposeDeps, 'storage' | 'tempDir'>,
  source: Buffer,
  { input, repliedTo, files }: OutgoingInput,
  { owner, messageId, date }: Stamp,
): Promise<OutgoingMessage> {
  const stored = await readDraftMessage(source, { from: owner, messageId, date }, tempDir);
  const from = senderOf(stored.from.email ? stored.from : owner, input);
  const message = mergeInput(stored, input, { from, messageId, date, reply: repliedTo });
  await fillFiles(storage, message, files);
  return message;
}

/** Composes a draft: apart from its headers byte for byte as in Drafts, unless tracking changes its HTML. */
async function composeDraft(
  deps: ComposeDeps,
  source: Buffer,
  { owner, messageId, date }: Stamp,
  tracking: Tracking | null,
): Promise<BothForms> {
  const given = { from: owner, messageId, date };
  if (tracking) {
    const message = withoutDraftHeaders(await readDraftMessage(source, given, deps.tempDir));
    return inBothForms(deps, { ...message, messageId, date }, tracking);
  }
  const { sentCopy, delivered, envelope } = await draftForSending(source, given, deps.tempDir);
  return { sentCopy, delivered, envelope, links: [] };
}

async function inBothForms(
  { publicUrl }: ComposeDeps,
  message: OutgoingMessage,
  tracking: Tracking | null,
): Promise<BothForms> {
  const sentCopy = await compose(message, { keepBcc: true });
  const envelope = envelopeOf(message);
  if (!tracking) {
    const delivered = message.bcc.length === 0 ? sentCopy : await compose(message, { keepBcc: false });
    return { sentCopy, delivered, envelope, links: [] };
  }
  const { opens = false, links = false, custom_domain } = tracking.options;
  const baseUrl = trackingBase(publicUrl, custom_domain);
  const tracked = trackMessage(message, { trackingId: tracking.trackingId, opens, links, baseUrl });
  return { sentCopy, delivered: await compose(tracked.message, { keepBcc: false }), envelope, links: tracked.links };
}

/** The base of tracking links; `custom_domain` replaces the host. */
function trackingBase(publicUrl: string, customDomain: string | undefined): string {
  if (!customDomain) return publicUrl;
  const url = new URL(publicUrl);
  url.port = '';
  url.host = customDomain;
  return url.href.replace(/\/+$/, '');
}

/**
 * The bytes of a stored draft.
 * @throws ApiError not_found when they are missing, since another mail program has deleted the draft
 */
export function loadDraftSource(storage: Storage, key: string): Promise<Buffer> {
  return loadStored(storage, key, 'draft');
}

/** The bytes of a stored object. @throws ApiError not_found, which names it as `what`, when it is missing or damaged */
async function loadStored(storage: Storage, key: string, what: string): Promise<Buffer> {
  try {
    return await loadSource(storage, key);
  } catch (error) {
    if (error instanceof StorageMissing) {
      throw new ApiError('not_found', `this ${what} no longer exists`, { cause: error });
    }
    if (error instanceof ObjectDamaged) {
      throw new ApiError('not_found', `the stored source of this ${what} is damaged`, { cause: error });
    }
    throw error;
  }
}

/** The bytes of a stored message. */
export async function loadSource(storage: Storage, key: string): Promise<Buffer> {
  return buffer(await storage.get(key));
}
