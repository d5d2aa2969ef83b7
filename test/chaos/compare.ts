import type { Pool } from 'pg';
import { identityOf, weakIdentityOf } from '../../src/imap/identity.ts';

/** One message as the server has it. */
export interface ServerMessage {
  uid: number;
  seen: boolean;
  deleted: boolean;
  /** others than \Seen, \Deleted, \Draft and \Recent, in lower case and sorted */
  flags: string[];
  /** the header section, or the fields of it that name a message */
  header: string;
  size: number;
  date: Date;
}

/** The flags that are compared, from those that a server names. */
export function comparedFlags(names: Iterable<string>): Pick<ServerMessage, 'seen' | 'deleted' | 'flags'> {
  const all = new Set([...names].map((name) => name.toLowerCase()));
  const flags = [...all].filter((name) => !/^\\(seen|deleted|draft|recent)$/.test(name)).sort();
  return { seen: all.has('\\seen'), deleted: all.has('\\deleted'), flags };
}

/** Fields of the header by which a message is known again. */
export const NAMING_FIELDS = ['message-id', 'subject', 'from', 'date'];

function fieldOf(header: string, name: string): string | null {
  const [, value] = new RegExp(`^${name}:[ \\t]*(.*(?:\\r?\\n[ \\t].*)*)`, 'im').exec(header) ?? [];
  return value?.trim() ?? null;
}

/** One folder that can be opened, as the server has it. */
export interface ServerFolder {
  path: string;
  messages: ServerMessage[];
}

export interface CompareOptions {
  /** false: the server gives copies another INTERNALDATE, and what the API moved is stored under the one it had */
  keepsDates: boolean;
}

interface StoredFolder {
  id: string;
  path: string;
  role: string;
  selectable: boolean;
  name: string;
  parent_id: string | null;
  total: number;
  unread: number;
  known: number;
  vacating: string | null;
  renumbering: unknown;
}

interface StoredLocation {
  folder_id: string;
  uid: number;
  email_id: string | null;
  seen: boolean;
  deleted: boolean;
  flags: string[] | null;
  vanished: boolean;
  identity: string;
  weak: string;
}

interface StoredMail {
  id: string;
  message_id: string | null;
  is_unread: boolean;
  flags: string[] | null;
  is_draft: boolean;
  draft_id: string | null;
  missing: boolean;
}

interface StoredEvent {
  type: string;
  sequence: number;
  object_id: string;
  data: string;
}

interface Stored {
  folders: StoredFolder[];
  locations: StoredLocation[];
  emails: StoredMail[];
  events: StoredEvent[];
}

async function load(pool: Pool, accountId: string): Promise<Stored> {
  const rows = async <T>(text: string) => (await pool.query(text, [accountId])).rows as T[];
  return {
    folders: await rows<StoredFolder>(
      `select id, path, role, selectable, name, parent_id, total_count as total, unread_count as unread,
        known_count as known, vacating, renumbering from folders where account_id = $1`,
    ),
    locations: await rows<StoredLocation>(
      `select folder_id, uid::int8::float8 as uid, email_id, seen, deleted, flags, vanished_at is not null as vanished,
        identity, weak_identity as weak from locations where account_id = $1`,
    ),
    emails: await rows<StoredMail>(
      `select id, message_id, is_unread, flags, is_draft, draft_id, missing_since is not null as missing
        from emails where account_id = $1`,
    ),
    events: await rows<StoredEvent>(
      `select type, sequence::float8 as sequence, object_id, data from events where account_id = $1 order by sequence`,
    ),
  };
}

/**
 * What of the store is not as the server, and what of the events is not as the store; empty when all is. Which of two
 * byte-identical messages has which id is not compared: no server tells them apart once they were moved.
 */
export async function differences(
  pool: Pool,
  accountId: string,
  server: ServerFolder[],
  options: CompareOptions,
): Promise<string[]> {
  const stored = await load(pool, accountId);
  return [
    ...foldersAndCounters(stored, server),
    ...locationsOf(stored, server, options),
    ...emailsOf(stored),
    ...replayed(stored),
  ];
}

function grouped<T, K>(items: T[], keyOf: (item: T) => K): Map<K, T[]> {
  const groups = new Map<K, T[]>();
  for (const item of items) groups.set(keyOf(item), [...(groups.get(keyOf(item)) ?? []), item]);
  return groups;
}

function* missingAndExtra(what: string, wanted: Iterable<string>, have: Iterable<string>): Generator<string> {
  const [there, stored] = [new Set(wanted), new Set(have)];
  for (const one of there) if (!stored.has(one)) yield `${what} ${one} is on the server and not stored`;
  for (const one of stored) if (!there.has(one)) yield `${what} ${one} is stored and not on the server`;
}

function* foldersAndCounters(stored: Stored, server: ServerFolder[]): Generator<string> {
  const selectable = stored.folders.filter((folder) => folder.selectable);
  const paths = server.map(({ path }) => path);
  yield* missingAndExtra(
    'folder',
    paths,
    selectable.map(({ path }) => path),
  );
  for (const folder of stored.folders) {
    if (folder.vacating || folder.renumbering) yield `folder ${folder.path} is being vacated or renumbered`;
  }
  for (const { path, messages } of server) {
    const folder = selectable.find((each) => each.path === path);
    if (!folder) continue;
    const counted = `${folder.total} messages, ${folder.unread} unread, ${folder.known} known`;
    const unread = messages.filter(({ seen }) => !seen).length;
    const wanted = `${messages.length} messages, ${unread} unread, ${messages.length} known`;
    if (counted !== wanted) yield `folder ${path} counts ${counted}; the server ${wanted}`;
  }
}

function* locationsOf(stored: Stored, server: ServerFolder[], { keepsDates }: CompareOptions): Generator<string> {
  const pathOf = new Map(stored.folders.map(({ id, path }) => [id, path]));
  const flags = ({ seen, deleted, flags: others }: Pick<StoredLocation, 'seen' | 'deleted' | 'flags'>) =>
    `${seen ? 'read' : 'unread'}${deleted ? ' deleted' : ''} ${others?.join(' ')}`;
  const wanted = server.flatMap(({ path, messages }) =>
    messages.map((message) => {
      const [messageId = null, ...extra] = NAMING_FIELDS.map((name) => fieldOf(message.header, name));
      const facts = { messageId, extra, size: message.size, internalDate: message.date };
      const identity = keepsDates ? identityOf(facts) : '';
      return `${path} ${message.uid} ${flags(message)} ${weakIdentityOf(facts)} ${identity}`;
    }),
  );
  const have = stored.locations
    .filter(({ vanished }) => !vanished)
    .map(
      (location) =>
        `${pathOf.get(location.folder_id) ?? `(no folder ${location.folder_id})`} ${location.uid} ${flags(location)} ${location.weak} ${keepsDates ? location.identity : ''}`,
    );
  yield* missingAndExtra('location', wanted, have);
  for (const location of stored.locations) {
    if (location.vanished) yield `location ${pathOf.get(location.folder_id)} ${location.uid} is vanished still`;
  }
}

function* emailsOf({ emails, locations }: Stored): Generator<string> {
  const live = grouped(
    locations.filter(({ vanished, email_id }) => !vanished && email_id),
    ({ email_id }) => email_id as string,
  );
  const ids = new Set(emails.map(({ id }) => id));
  for (const id of live.keys()) if (!ids.has(id)) yield `locations name the email ${id}, which is not stored`;
  for (const email of emails) {
    const places = live.get(email.id) ?? [];
    const name = `email ${email.id} (${email.message_id})`;
    if (places.length === 0) yield `${name} has no location`;
    if (email.missing) yield `${name} is missing still`;
    if (email.is_unread !== !places.some(({ seen }) => seen)) yield `${name} is_unread is ${email.is_unread}`;
    const flags = [...new Set(places.flatMap((place) => place.flags ?? []))].sort().join(' ');
    if (email.flags?.join(' ') !== flags)
      yield `${name} has the flags ${email.flags?.join(' ')}, its locations ${flags}`;
    const folders = places.map(({ folder_id }) => folder_id);
    if (new Set(folders).size < folders.length) yield `${name} is twice in one folder`;
    if (email.is_draft !== (email.draft_id !== null)) yield `${name} is_draft ${email.is_draft}, ${email.draft_id}`;
  }
}

/** The ids of the folders that readers are shown: see shownFolders, which this does not use. */
function shown(places: StoredLocation[], roleOf: ReadonlyMap<string, string>): string[] {
  const staying = places.some(({ deleted }) => !deleted) ? places.filter(({ deleted }) => !deleted) : places;
  const isView = ({ folder_id }: StoredLocation) => roleOf.get(folder_id) === 'ALL';
  const kept = staying.some((place) => !isView(place)) ? staying.filter((place) => !isView(place)) : staying;
  return [...new Set(kept.map(({ folder_id }) => folder_id))].sort();
}

/** The state of a client that applies the events in their order. */
class Replica {
  readonly emails = new Map<string, string>();
  readonly drafts = new Set<string>();
  readonly folders = new Map<string, string>();
  readonly faults: string[] = [];
  private readonly arrived = new Set<string>();
  private readonly leftDrafts = new Set<string>();

  apply({ type, object_id: id, data }: StoredEvent): void {
    const { email, folder } = JSON.parse(data);
    const needs = (known: boolean) => {
      if (!known) this.faults.push(`${type} of ${id}, which is not there (${email?.message_id ?? folder?.name})`);
    };
    const isOf = () =>
      [
        ...[
          email.is_unread ? 'unread' : 'read',
          email.is_starred ? 'starred' : '',
          email.is_answered ? 'answered' : '',
        ],
        ...[...email.keywords, '|', ...email.folders],
      ].join(' ');
    switch (type) {
      case 'email.new':
      case 'email.new.bounce':
        // An email that is put into Drafts and then into Sent is new again: a draft that was sent, with email.new.
        if (this.arrived.has(id) && !this.leftDrafts.has(id)) {
          this.faults.push(`${type} came twice for ${id} (${email.message_id})`);
        }
        this.leftDrafts.delete(id);
        this.arrived.add(id);
        this.emails.set(id, isOf());
        break;
      case 'email.update':
        // A draft that left Drafts is an email from its first update on.
        needs(this.emails.has(id) || this.leftDrafts.delete(id));
        this.emails.set(id, isOf());
        break;
      case 'email.delete':
        needs(this.emails.delete(id));
        break;
      case 'email.draft.new':
        if (this.drafts.has(id)) this.faults.push(`email.draft.new of ${id}, which is a draft`);
        this.drafts.add(id);
        this.emails.delete(id);
        break;
      case 'email.draft.delete':
        needs(this.drafts.delete(id));
        this.leftDrafts.add(id);
        break;
      case 'email.folder.create':
      case 'email.folder.update':
        this.folders.set(id, `${folder.name} in ${folder.parent_id}`);
        break;
      case 'email.folder.delete':
        this.folders.delete(id);
        break;
      default:
    }
  }
}

function* replayed({ folders, locations, emails, events }: Stored): Generator<string> {
  const replica = new Replica();
  for (const [index, event] of events.entries()) {
    if (event.sequence !== index + 1) yield `event ${index + 1} has the sequence ${event.sequence}`;
    replica.apply(event);
  }
  yield* replica.faults;
  const roleOf = new Map(folders.map(({ id, role }) => [id, role]));
  const live = grouped(
    locations.filter(({ vanished }) => !vanished),
    ({ email_id }) => email_id,
  );
  const state = (email: StoredMail) =>
    [
      ...[email.is_unread ? 'unread' : 'read', email.flags?.includes('\\flagged') ? 'starred' : ''],
      ...[
        email.flags?.includes('\\answered') ? 'answered' : '',
        ...(email.flags ?? []).filter((one) => !/^\\/.test(one)),
      ],
      ...['|', ...shown(live.get(email.id) ?? [], roleOf)],
    ].join(' ');
  const pathOf = new Map(folders.map(({ id, path }) => [id, path]));
  const readable = (text: string) => text.replace(/\S+/g, (word) => pathOf.get(word) ?? word);
  for (const email of emails.filter(({ is_draft }) => !is_draft)) {
    const known = replica.emails.get(email.id);
    const name = `email ${email.id} (${email.message_id})`;
    if (known !== state(email)) {
      yield `the events say of ${name}: ${readable(known ?? 'nothing')}; the store: ${readable(state(email))}`;
    }
  }
  const stored = new Map(emails.map((email) => [email.id, email]));
  for (const id of replica.emails.keys()) {
    if (stored.get(id)?.is_draft !== false) yield `the events have the email ${id}, the store has not`;
  }
  // Of a draft's folders and flags there are no events, only of its coming and going.
  for (const id of replica.drafts) if (!stored.get(id)?.is_draft) yield `the events have the draft ${id}`;
  for (const { id, is_draft } of emails) if (is_draft && !replica.drafts.has(id)) yield `no event has the draft ${id}`;
  yield* replayedFolders(folders, replica.folders, events);
}

/** Folders from before the connect, which no event created, are known from the first read. */
function* replayedFolders(
  folders: StoredFolder[],
  known: ReadonlyMap<string, string>,
  events: StoredEvent[],
): Generator<string> {
  const touched = new Set(events.filter(({ type }) => type.startsWith('email.folder.')).map((each) => each.object_id));
  for (const folder of folders) {
    const is = `${folder.name} in ${folder.parent_id}`;
    if (touched.has(folder.id) && known.get(folder.id) !== is) {
      yield `the events say of the folder ${folder.id}: ${known.get(folder.id)}; the store: ${is}`;
    }
  }
  const stored = new Set(folders.map(({ id }) => id));
  for (const id of known.keys()) if (!stored.has(id)) yield `the events have the folder ${id}, the store has not`;
}
