import type { FakeFolder, FakeMessage } from './fake-imap.ts';
import type { FakeSession } from './fake-imap-session.ts';
import { type Command, inSet } from './fake-imap-wire.ts';

/** The commands that change the mailbox, each only where its capability is offered. */

/** Refuses an APPEND before the message is sent. */
export function refuseLiteral(session: FakeSession, size: number, line: string): boolean {
  const [, tag] = /^(\S+) APPEND /i.exec(line) ?? [];
  if (!tag || size <= session.server.appendLimit) return false;
  session.server.log.push({ tag, name: 'APPEND', args: [] });
  session.write(`${tag} NO [TOOBIG] too large\r\n`);
  return true;
}

/** Answers a command that writes; false for any other. */
export function answerWrite(session: FakeSession, command: Command): boolean {
  const handler = HANDLERS[command.name];
  if (!handler) return false;
  const { needs, change } = handler;
  if (needs && !session.has(needs)) session.done(command, 'BAD unknown command');
  else if (SELECTED.has(command.name) && !session.selected) session.done(command, 'BAD nothing is selected');
  else if (SELECTED.has(command.name) && session.readOnly) session.done(command, 'NO it is open for reading only');
  else if (!/^UID /.test(command.name) || !session.refuses(command, setOf(session, command))) change(session, command);
  return true;
}

interface Handler {
  /** capability */
  needs?: string;
  change(session: FakeSession, command: Command): void;
}

const SELECTED = new Set(['UID STORE', 'UID COPY', 'UID MOVE', 'UID EXPUNGE', 'EXPUNGE']);

const HANDLERS: Record<string, Handler> = {
  'UID STORE': { change: store },
  'UID COPY': { change: (session, command) => transfer(session, command, 'copy') },
  'UID MOVE': { needs: 'MOVE', change: (session, command) => transfer(session, command, 'move') },
  'UID EXPUNGE': { needs: 'UIDPLUS', change: (session, command) => expunge(session, command, String(command.args[0])) },
  EXPUNGE: { change: (session, command) => expunge(session, command, '1:*') },
  CLOSE: { change: close },
  UNSELECT: { needs: 'UNSELECT', change: leave },
  APPEND: { change: append },
  CREATE: { change: create },
  RENAME: { change: rename },
  DELETE: { change: remove },
  SUBSCRIBE: { change: subscribe },
  UNSUBSCRIBE: { change: subscribe },
};

const setOf = ({ selected }: FakeSession, { args }: Command) => (selected ? allNamed(selected, String(args[0])) : []);

/** The messages of the selected folder that a set of UIDs names, as far as one command processes them. */
function named(session: FakeSession, set: string): [FakeFolder, FakeMessage[], code: string] {
  const folder = session.selected as FakeFolder;
  const all = allNamed(folder, set);
  return [folder, session.within(all), session.limitCode(all)];
}

function allNamed(folder: FakeFolder, set: string): FakeMessage[] {
  const largest = folder.messages.at(-1)?.uid ?? 0;
  return folder.messages.filter(({ uid }) => inSet(set, uid, largest));
}

function store(session: FakeSession, command: Command): void {
  const [set, item, values] = command.args;
  const [folder, messages, limited] = named(session, String(set));
  const [, sign = '', silent] = /^([+-]?)FLAGS(\.SILENT)?$/i.exec(String(item)) ?? [];
  const flags = [values ?? []].flat().map(String);
  for (const message of messages) {
    const replaced = sign === '' ? [...message.flags].filter((flag) => !flags.includes(flag)) : [];
    session.server.changeFlags(folder, message, sign === '-' ? [] : flags, sign === '-' ? flags : replaced);
    if (silent) session.flagNews.delete(message.uid);
  }
  session.tellNews();
  session.done(command, `OK ${limited}done`);
  session.server.tell();
}

function transfer(session: FakeSession, command: Command, verb: 'copy' | 'move'): void {
  const [folder, messages, limited] = named(session, String(command.args[0]));
  const target = session.server.folders.get(String(command.args[1]));
  if (!target) return session.done(command, 'NO [TRYCREATE] no such folder');
  // a COPY does all or nothing (RFC 3501 6.4.7)
  if (verb === 'copy' && limited) return session.done(command, `NO ${limited}too many`);
  const uids = messages.map((message) => session.server[verb](folder, message, target));
  const sources = messages.map(({ uid }) => uid).join(',');
  const code =
    session.has('UIDPLUS') && uids.length > 0 ? `[COPYUID ${target.uidValidity} ${sources} ${uids.join(',')}] ` : '';
  // RFC 6851 4.3: before the messages are removed, while their UIDs are valid
  if (verb === 'move' && code) session.send(command, `* OK ${code}moved\r\n`);
  session.tellNews();
  session.done(command, verb === 'move' ? `OK ${limited}done` : `OK ${code}done`);
  session.server.tell();
}

function expunge(session: FakeSession, command: Command, set: string): void {
  const [folder, messages, limited] = named(session, set);
  for (const message of messages) if (message.flags.has('\\Deleted')) session.server.expunge(folder, message);
  session.tellNews();
  session.done(command, `OK ${limited}done`);
  session.server.tell();
}

function close(session: FakeSession, command: Command): void {
  const [folder, messages] = session.selected ? named(session, '1:*') : [undefined, []];
  const deleted = session.readOnly ? [] : messages.filter(({ flags }) => flags.has('\\Deleted'));
  for (const message of deleted) session.server.expunge(folder as FakeFolder, message);
  leave(session, command);
  session.server.tell();
}

function leave(session: FakeSession, command: Command): void {
  session.selected = undefined;
  session.done(command);
}

function append(session: FakeSession, command: Command): void {
  const [path, ...rest] = command.args;
  const { server } = session;
  const folder = server.folders.get(String(path));
  if (!folder) return session.done(command, 'NO [TRYCREATE] no such folder');
  const source = Buffer.from(String(rest.at(-1)), 'latin1');
  if (source.length > server.appendLimit) return session.done(command, 'NO [TOOBIG] too large');
  const flags = rest.find((arg) => Array.isArray(arg))?.map(String) ?? [];
  const date = rest.slice(0, -1).find((arg) => typeof arg === 'string');
  const uid = server.append(folder.path, source, { flags, ...(date ? { date: new Date(date) } : {}) });
  session.tellNews();
  session.done(command, session.has('UIDPLUS') ? `OK [APPENDUID ${folder.uidValidity} ${uid}] done` : 'OK done');
  server.tell();
}

function create(session: FakeSession, command: Command): void {
  const { server } = session;
  const path = String(command.args[0]).replace(/\/$/, '');
  if (server.folders.has(path)) return session.done(command, 'NO [ALREADYEXISTS] there is one');
  server.createFolder(path);
  session.done(command);
}

function rename(session: FakeSession, command: Command): void {
  const { server } = session;
  const [from = '', to = ''] = command.args.map(String);
  if (!server.folders.has(from)) return session.done(command, 'NO [NONEXISTENT] no such folder');
  if (server.folders.has(to)) return session.done(command, 'NO [ALREADYEXISTS] there is one');
  const why = server.protects(from);
  if (why) return session.done(command, `NO ${why}`);
  server.renameFolder(from, to);
  session.done(command);
}

function remove(session: FakeSession, command: Command): void {
  const { server } = session;
  const path = String(command.args[0]);
  const folder = server.folders.get(path);
  if (!folder) return session.done(command, 'NO [NONEXISTENT] no such folder');
  const why = server.protects(path);
  if (why) return session.done(command, `NO ${why}`);
  server.deleteFolder(path);
  for (const each of server.sessions) if (each.selected === folder) each.selected = undefined;
  session.done(command);
}

function subscribe(session: FakeSession, command: Command): void {
  const path = String(command.args[0]);
  if (command.name === 'SUBSCRIBE') session.server.subscribed.add(path);
  else session.server.subscribed.delete(path);
  session.done(command);
}
