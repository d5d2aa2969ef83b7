import type { Socket } from 'node:net';
import type { FakeSmtp, SmtpMoment, SmtpReaction } from './fake-smtp.ts';

const CRLF = Buffer.from('\r\n');
const END = Buffer.from('\r\n.\r\n');

/** One connection to a FakeSmtp. */
export class FakeSmtpSession {
  readonly socket: Socket;
  private readonly server: FakeSmtp;
  private readonly number: number;
  /** received and unprocessed */
  private chunks: Buffer[] = [];
  private searched = 0;
  private busy = false;
  /** reads the lines that follow, for AUTH */
  private answerTo: ((line: string) => void) | undefined;
  private loginUser = '';
  private from: { address: string; parameters: string[] } | undefined;
  private to: string[] = [];
  private inData = false;
  private dataSeen = false;
  private mute = false;

  constructor(server: FakeSmtp, socket: Socket, number: number) {
    this.server = server;
    this.socket = socket;
    this.number = number;
    socket.setNoDelay(true).on('data', (chunk: Buffer) => {
      this.chunks.push(chunk);
      void this.work();
    });
  }

  async greet(): Promise<void> {
    this.busy = true;
    await this.react('greeting', '', () => this.say('220 fake.test ESMTP'));
    this.busy = false;
    void this.work();
  }

  say(line: string): void {
    if (!this.mute) this.socket.write(`${line}\r\n`);
  }

  private async work(): Promise<void> {
    if (this.busy) return;
    this.busy = true;
    while (!this.mute && !this.socket.destroyed && (this.inData ? await this.readData() : await this.readLine()));
    this.busy = false;
  }

  private async readLine(): Promise<boolean> {
    const input = Buffer.concat(this.chunks);
    const end = input.indexOf(CRLF);
    if (end < 0) return false;
    const line = input.subarray(0, end).toString();
    this.chunks = [input.subarray(end + 2)];
    const { answerTo } = this;
    this.answerTo = undefined;
    if (answerTo) answerTo(line);
    else {
      this.server.log.push(/^AUTH/i.test(line) ? line.split(' ', 2).join(' ') : line);
      const verb = (line.split(/[ :]/, 1)[0] ?? '').toUpperCase();
      await this.react((verb === 'HELO' ? 'EHLO' : verb) as SmtpMoment, line, () => this.obey(verb, line));
    }
    return true;
  }

  private async readData(): Promise<boolean> {
    if (!this.dataSeen && this.chunks.some(({ length }) => length > 0)) {
      this.dataSeen = true;
      await this.react('data', Buffer.concat(this.chunks).toString('latin1'), () => {});
      return true;
    }
    // The end may be split over two chunks, or be the whole message.
    const before = Math.max(0, this.searched - 1);
    const news = Buffer.concat(this.chunks.slice(before));
    const empty = news.length < 64 && Buffer.concat(this.chunks).subarray(0, 3).equals(END.subarray(2));
    this.searched = this.chunks.length;
    if (!empty && !news.includes(END)) return false;
    const input = Buffer.concat(this.chunks);
    const end = empty ? -2 : input.indexOf(END);
    const source = unstuff(input.subarray(0, end + 2));
    this.chunks = [input.subarray(end + END.length)];
    this.searched = 0;
    this.inData = false;
    await this.react('dot', source.toString('latin1'), async () => {
      await this.accept(source);
      this.say('250 2.0.0 accepted');
    });
    this.from = undefined;
    this.to = [];
    return true;
  }

  private async react(moment: SmtpMoment, line: string, usual: () => void | Promise<void>): Promise<void> {
    const reaction: SmtpReaction | undefined = await this.server.script(moment, line, this);
    if (reaction === undefined) return usual();
    if (reaction === 'silence') this.mute = true;
    else if (reaction === 'drop') this.socket.destroy();
    else if (reaction === 'take and drop') {
      await this.accept(Buffer.from(line, 'latin1'));
      this.socket.destroy();
    } else {
      this.say(reaction);
      if (reaction.startsWith('421')) this.socket.end();
    }
  }

  private async accept(source: Buffer): Promise<void> {
    const message = {
      from: this.from?.address ?? '',
      parameters: this.from?.parameters ?? [],
      to: this.to,
      source,
      connection: this.number,
    };
    this.server.messages.push(message);
    await this.server.onAccepted(source, message);
  }

  private obey(verb: string, line: string): void {
    const [, address = '', rest = ''] = /<(.*)>(.*)$/.exec(line) ?? [];
    switch (verb) {
      case 'EHLO':
        return ['fake.test', ...this.server.extensions].forEach((text, index, all) =>
          this.say(`250${index === all.length - 1 ? ' ' : '-'}${text}`),
        );
      case 'AUTH':
        return this.authenticate(line);
      case 'MAIL':
        this.from = { address, parameters: rest.split(' ').filter(Boolean) };
        this.to = [];
        return this.say('250 2.1.0 ok');
      case 'RCPT':
        if (this.from) this.to.push(address);
        return this.say(this.from ? '250 2.1.5 ok' : '503 5.5.1 MAIL first');
      case 'DATA':
        this.inData = this.to.length > 0;
        this.dataSeen = false;
        return this.say(this.inData ? '354 continue' : '554 5.5.1 no valid recipients');
      case 'RSET':
        this.from = undefined;
        this.to = [];
        return this.say('250 2.0.0 ok');
      case 'QUIT':
        this.say('221 2.0.0 bye');
        return void this.socket.end();
      default:
        return this.say('502 5.5.1 not known');
    }
  }

  private authenticate(line: string): void {
    const [, mechanism = '', initial] = line.split(' ');
    const text = (coded: string) => Buffer.from(coded, 'base64').toString();
    const check = (user: string, password: string) => {
      const { login } = this.server;
      const fits = !login || (login.user === user && login.password === password);
      this.say(fits ? '235 2.7.0 welcome' : '535 5.7.8 authentication failed');
    };
    const plain = (coded: string) => {
      const [, user = '', password = ''] = text(coded).split('\0');
      check(user, password);
    };
    if (mechanism.toUpperCase() === 'PLAIN') {
      if (initial !== undefined) return plain(initial);
      this.answerTo = plain;
      return this.say('334 ');
    }
    this.answerTo = (user) => {
      this.loginUser = text(user);
      this.answerTo = (password) => check(this.loginUser, text(password));
      this.say('334 UGFzc3dvcmQ6');
    };
    this.say('334 VXNlcm5hbWU6');
  }
}

/** Removes the added dot from lines that begin with one (RFC 5321 4.5.2). */
function unstuff(data: Buffer): Buffer {
  return Buffer.from(data.toString('latin1').replace(/(^|\r\n)\.\./g, '$1.'), 'latin1');
}
