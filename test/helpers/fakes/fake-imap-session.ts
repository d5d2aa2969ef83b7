import type { Socket } from 'node:net';
import type { FakeFolder, FakeImap, FakeMessage } from './fake-imap.ts';
import {
  type Arg,
  type Command,
  CommandReader,
  headerFields,
  inSet,
  internalDate,
  type Line,
  parseCommand,
  quoted,
} from './fake-imap-wire.ts';
import { matchesPattern, searchMessages } from './fake-imap-search.ts';
import { answerWrite, refuseLiteral } from './fake-imap-writes.ts';

const NONE: Command = { tag: '*', name: '', args: [] };

/** One connection. */
export class FakeSession {
  readonly server: FakeImap;
  readonly socket: Socket;
  selected: FakeFolder | undefined;
  /** opened by EXAMINE */
  readOnly = false;
  idling: Command | undefined;
  readonly flagNews = new Set<number>();
  private enabled = new Set<string>();
  /** UIDs by sequence number, as the client knows them */
  view: number[] = [];

  constructor(server: FakeImap, socket: Socket) {
    this.server = server;
    this.socket = socket;
    // An answer is written in pieces: no piece waits for the acknowledgement of the previous one.
    socket.setNoDelay(true);
    const reader = new CommandReader((size, line) => {
      if (refuseLiteral(this, size, line)) return false;
      this.write('+ continue\r\n');
      return true;
    });
    socket.on('data', (chunk) => reader.read(chunk).forEach((line) => this.receive(line)));
    const { greeting = '* OK ready' } = server.script;
    if (greeting !== null) this.write(`${greeting}\r\n`);
  }

  write(data: string | Buffer): void {
    if (!this.socket.destroyed) this.socket.write(data);
  }

  /** Sends a piece of an answer, unless the script says otherwise. */
  send(command: Command, text: string): void {
    this.write(this.server.script.answer?.(text, command, this) ?? text);
  }

  done(command: Command, text = 'OK done'): void {
    this.send(command, `${command.tag} ${text}\r\n`);
  }

  private receive(line: Line): void {
    const command: Command =
      line.text.toUpperCase() === 'DONE'
        ? { tag: this.idling?.tag ?? '*', name: 'DONE', args: [] }
        : parseCommand(line);
    this.server.log.push(command);
    if (!this.server.script.command?.(command, this)) this.answer(command);
  }

  /** Answers a command as a correct server does. */
  answer(command: Command): void {
    const { name, args } = command;
    const tell = (text: string) => this.send(command, `* ${text}\r\n`);
    switch (name) {
      case 'CAPABILITY':
        tell(`CAPABILITY ${this.server.capabilities}`);
        return this.done(command);
      case 'LOGIN':
        return this.done(command, `OK [CAPABILITY ${this.server.capabilities}] in`);
      case 'ID':
        tell('ID ("name" "fake")');
        return this.done(command);
      case 'ENABLE':
        this.enabled = new Set(
          args
            .flat(9)
            .map((arg) => String(arg).toUpperCase())
            .filter((arg) => this.has(arg)),
        );
        tell(`ENABLED ${[...this.enabled].join(' ')}`);
        return this.done(command);
      case 'NAMESPACE':
        tell('NAMESPACE (("" "/")) NIL NIL');
        return this.done(command);
      case 'LIST':
      case 'LSUB':
        return this.list(command);
      case 'STATUS':
        return this.status(command);
      case 'SELECT':
      case 'EXAMINE':
        return this.select(command);
      case 'FETCH':
      case 'UID FETCH':
        return this.fetch(command);
      case 'UID SEARCH':
        return this.search(command);
      case 'IDLE':
        this.idling = command;
        this.send(command, '+ idling\r\n');
        return this.tellNews();
      case 'DONE':
        this.idling = undefined;
        return this.done(command);
      case 'NOOP':
        this.tellNews();
        return this.done(command);
      case 'LOGOUT':
        tell('BYE see you');
        this.done(command);
        return void this.socket.end();
      default:
        if (!answerWrite(this, command)) this.done(command, 'BAD unknown command');
    }
  }

  /** Sends the untagged responses for changes of the selected folder since the last ones. */
  tellNews(): void {
    const folder = this.selected;
    if (!folder) return;
    const tell = (text: string) => this.send(this.idling ?? NONE, `* ${text}\r\n`);
    const there = new Set(folder.messages.map((message) => message.uid));
    for (const uid of this.view.filter((each) => !there.has(each))) {
      tell(this.enabled.has('QRESYNC') ? `VANISHED ${uid}` : `${this.view.indexOf(uid) + 1} EXPUNGE`);
      this.view.splice(this.view.indexOf(uid), 1);
    }
    if (folder.messages.length > this.view.length) tell(`${folder.messages.length} EXISTS`);
    this.view = folder.messages.map((message) => message.uid);
    for (const uid of this.flagNews) {
      const message = folder.messages.find((each) => each.uid === uid);
      if (message) tell(`${this.view.indexOf(uid) + 1} FETCH (UID ${uid} FLAGS (${[...message.flags].join(' ')}))`);
    }
    this.flagNews.clear();
  }

  has(capability: string): boolean {
    return this.server.capabilities.split(' ').includes(capability);
  }

  private list(command: Command): void {
    const names = command.args.filter((arg) => typeof arg === 'string');
    const pattern = names[1] ?? '';
    const onlySubscribed = command.name === 'LSUB' || String(command.args[0]) === 'SUBSCRIBED';
    const wanted = Array.isArray(command.args.at(-1)) ? (command.args.at(-1) as Arg[]) : [];
    const status = wanted[wanted.indexOf('STATUS') + 1];
    if (pattern === '') this.send(command, `* ${command.name} (\\Noselect) "/" ""\r\n`);
    for (const folder of this.server.folders.values()) {
      const subscribed = this.server.subscribed.has(folder.path);
      if (!matchesPattern(pattern, folder.path) || (onlySubscribed && !subscribed)) continue;
      const attributes = [
        ...folder.attributes,
        ...(subscribed && wanted.includes('SUBSCRIBED') ? ['\\Subscribed'] : []),
      ];
      this.send(command, `* ${command.name} (${attributes.join(' ')}) "/" ${quoted(folder.path)}\r\n`);
      if (Array.isArray(status)) this.send(command, this.statusLine(folder, status.map(String)));
    }
    this.done(command);
  }

  private statusLine(folder: FakeFolder, items: string[]): string {
    const values: Record<string, number> = {
      MESSAGES: folder.messages.length,
      UIDNEXT: folder.uidNext,
      UIDVALIDITY: folder.uidValidity,
      UNSEEN: folder.messages.filter((message) => !message.flags.has('\\Seen')).length,
      HIGHESTMODSEQ: folder.modseq,
    };
    return `* STATUS ${quoted(folder.path)} (${items.map((item) => `${item} ${values[item] ?? 0}`).join(' ')})\r\n`;
  }

  private status(command: Command): void {
    const folder = this.server.folders.get(String(command.args[0]));
    if (!folder) return this.done(command, 'NO no such folder');
    this.send(command, this.statusLine(folder, (command.args[1] as Arg[]).map(String)));
    this.done(command);
  }

  private select(command: Command): void {
    const folder = this.server.folders.get(String(command.args[0]));
    this.selected = undefined;
    if (!folder || folder.attributes.includes('\\Noselect')) return this.done(command, 'NO no such folder');
    this.selected = folder;
    this.readOnly = command.name === 'EXAMINE';
    this.view = folder.messages.map((message) => message.uid);
    this.flagNews.clear();
    const { messages, uidValidity, uidNext, modseq } = folder;
    const lines = [
      'FLAGS (\\Answered \\Flagged \\Deleted \\Seen \\Draft)',
      `OK [PERMANENTFLAGS (${this.server.options.permanentFlags ?? '\\Answered \\Flagged \\Deleted \\Seen \\Draft \\*'})] kept`,
      `${messages.length} EXISTS`,
      `OK [UIDVALIDITY ${uidValidity}] same`,
    ];
    lines.push(`OK [UIDNEXT ${uidNext}] next`);
    if (this.has('CONDSTORE')) lines.push(`OK [HIGHESTMODSEQ ${modseq}] highest`);
    for (const line of lines) this.send(command, `* ${line}\r\n`);
    this.done(command, `OK [READ-${this.readOnly ? 'ONLY' : 'WRITE'}] selected`);
  }

  private fetch(command: Command): void {
    const folder = this.selected;
    if (!folder) return this.done(command, 'BAD nothing is selected');
    const [set, query, modifiers = []] = command.args;
    const byUid = command.name === 'UID FETCH';
    const options = [modifiers].flat().map(String);
    const since = Number(options[options.indexOf('CHANGEDSINCE') + 1] ?? 0);
    if (options.includes('VANISHED')) {
      const gone = folder.vanished.filter(({ modseq }) => modseq > since).map(({ uid }) => uid);
      if (gone.length > 0) this.send(command, `* VANISHED (EARLIER) ${gone.join(',')}\r\n`);
    }
    const largest = byUid ? (this.view.at(-1) ?? 0) : this.view.length;
    const messages = new Map(folder.messages.map((message) => [message.uid, message]));
    const named = this.view
      .map((uid, index) => ({ message: messages.get(uid), number: index + 1, uid }))
      .filter(({ uid, number }) => inSet(String(set), byUid ? uid : number, largest));
    if (this.refuses(command, named)) return;
    for (const { message, number } of this.within(named)) {
      if (!message || (options.includes('CHANGEDSINCE') && message.modseq <= since)) continue;
      const items = [query].flat().map((item) => itemOf(message, String(item)));
      this.send(command, `* ${number} FETCH (${items.join(' ')})\r\n`);
    }
    this.done(command, `OK ${this.limitCode(named)}done`);
  }

  private search(command: Command): void {
    const messages = this.selected?.messages ?? [];
    const words = command.args.map(String);
    const [first = ''] = words;
    const isSet = /^[\d:,*]+$/.test(first);
    const named = isSet ? messages.filter((_, index) => inSet(first, index + 1, messages.length)) : messages;
    if (this.refuses(command, named)) return;
    const found = searchMessages(this.within(named), words);
    this.send(command, `* SEARCH${found.map(({ uid }) => ` ${uid}`).join('')}\r\n`);
    this.done(command, `OK ${this.limitCode(named)}done`);
  }

  /** Those of the messages, ascending, that one command processes. */
  within<T>(named: T[]): T[] {
    const { most = Infinity, from } = this.server.options.limit ?? {};
    if (named.length <= most) return named;
    return from === 'lowest' ? named.slice(0, most) : named.slice(-most);
  }

  /** The response code of a command that names more messages than it processes. */
  limitCode(named: unknown[]): string {
    const { most = Infinity, says, code = `MESSAGELIMIT ${most}` } = this.server.options.limit ?? {};
    return says && named.length > most ? `[${code}] ` : '';
  }

  /** Refuses a command that names too many messages, where the server does that. */
  refuses(command: Command, named: unknown[]): boolean {
    const { most = Infinity, refuses } = this.server.options.limit ?? {};
    if (!refuses || named.length <= most) return false;
    this.done(command, `NO ${this.limitCode(named)}not so many`);
    return true;
  }
}

/** One item of a FETCH answer. Bytes are written as latin1: messages here are ASCII. */
function itemOf(message: FakeMessage, item: string): string {
  const name = item.replace('.PEEK', '');
  const literal = (content: Buffer) => `{${content.length}}\r\n${content.toString('latin1')}`;
  const fields = /^BODY\[HEADER\.FIELDS \((.*)\)\]$/i.exec(name);
  if (fields) return `${name} ${literal(headerFields(message.source, (fields[1] ?? '').split(' ')))}`;
  const body = /^BODY\[\](?:<(\d+)\.(\d+)>)?$/i.exec(name);
  if (body) {
    const from = Number(body[1] ?? 0);
    const content = body[1] ? message.source.subarray(from, from + Number(body[2])) : message.source;
    return `BODY[]${body[1] ? `<${from}>` : ''} ${literal(content)}`;
  }
  const values: Record<string, string> = {
    UID: String(message.uid),
    FLAGS: `(${[...message.flags].join(' ')})`,
    INTERNALDATE: internalDate(message.date),
    'RFC822.SIZE': String(message.source.length),
    MODSEQ: `(${message.modseq})`,
    EMAILID: `(${message.emailId})`,
    THREADID: message.threadId ? `(${message.threadId})` : 'NIL',
    'X-GM-MSGID': message.emailId ?? '0',
    'X-GM-THRID': message.threadId ?? '0',
  };
  return `${name} ${values[name.toUpperCase()] ?? 'NIL'}`;
}
