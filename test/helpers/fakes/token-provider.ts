import type { FakeImapOptions } from './fake-imap.ts';
import { FakeImap, PLAIN } from './fake-imap.ts';
import type { FakeSession } from './fake-imap-session.ts';
import type { Command } from './fake-imap-wire.ts';
import { FakeSmtp, type SmtpReaction } from './fake-smtp.ts';

/** How a provider refuses an access token: an error in JSON, which the client has to acknowledge, or none, and its words. */
interface Refusal {
  json?: string;
  /** the tagged response of IMAP, the reply of SMTP */
  words: string;
}

/** What a provider offers, and its words. The user's name in them is made up. */
export interface Dialect {
  /** of IMAP */
  capabilities: string;
  /** of SMTP */
  auth: string;
  imap: Refusal;
  smtp: Refusal & { words: SmtpReaction };
}

const GMAIL_ERROR = '{"status":"401","schemes":"bearer mac","scope":"https://mail.google.com/"}';
const RFC_7628_ERROR = '{"status":"invalid_token","scope":"mail-r","openid-configuration":"https://example.test/"}';

export const EXCHANGE: Dialect = {
  capabilities: `${PLAIN} AUTH=PLAIN AUTH=XOAUTH2 SASL-IR`,
  auth: 'AUTH LOGIN XOAUTH2',
  imap: { words: 'NO AUTHENTICATE failed.' },
  smtp: { words: '535 5.7.3 Authentication unsuccessful' },
};
export const GMAIL: Dialect = {
  capabilities: `${PLAIN} AUTH=XOAUTH2 AUTH=OAUTHBEARER SASL-IR`,
  auth: 'AUTH LOGIN PLAIN XOAUTH2 PLAIN-CLIENTTOKEN OAUTHBEARER XOAUTH',
  imap: { json: GMAIL_ERROR, words: 'NO [AUTHENTICATIONFAILED] Invalid credentials (Failure)' },
  smtp: { json: GMAIL_ERROR, words: '535 5.7.8 Username and Password not accepted.' },
};
export const YAHOO: Dialect = {
  capabilities: `${PLAIN} AUTH=PLAIN AUTH=OAUTHBEARER SASL-IR`,
  auth: 'AUTH PLAIN LOGIN OAUTHBEARER',
  imap: { json: RFC_7628_ERROR, words: 'NO [AUTHENTICATIONFAILED] AUTHENTICATE Invalid credentials' },
  smtp: { json: RFC_7628_ERROR, words: '535 5.7.0 Authentication failed' },
};

/** A mail provider in memory that takes access tokens, with the dialect of one. Any token opens the mailbox. */
export class TokenProvider {
  readonly imap: FakeImap;
  readonly smtp: FakeSmtp;
  /** how many logins of each side are refused from now on */
  readonly refuses = { imap: 0, smtp: 0 };
  /** answers IMAP commands after the login in place of the server; undefined: the server answers */
  says: (command: Command) => string | undefined = () => undefined;
  /** IMAP logins so far, ms since 1970 */
  readonly logins: number[] = [];
  /** what clients sent after an error in JSON */
  readonly acknowledged: string[] = [];
  private readonly dialect: Dialect;
  private readonly challenged = new WeakMap<FakeSession, Command>();
  private readonly loggedIn = new WeakSet<FakeSession>();

  constructor(dialect: Dialect, options: FakeImapOptions = {}) {
    this.dialect = dialect;
    this.imap = new FakeImap({ capabilities: dialect.capabilities, ...options });
    this.smtp = new FakeSmtp({ extensions: ['8BITMIME', 'ENHANCEDSTATUSCODES', dialect.auth] });
    this.imap.script.command = (command, session) => this.answer(command, session);
    this.smtp.script = (moment, line) => this.reply(moment, line);
  }

  async listen(): Promise<this> {
    await Promise.all([this.imap.listen(), this.smtp.listen()]);
    return this;
  }

  async close(): Promise<void> {
    await Promise.all([this.imap.close(), this.smtp.close()]);
  }

  /** Ends all IMAP sessions. */
  cut(): void {
    for (const { socket } of this.imap.sessions) socket.destroy();
  }

  private isRefused(side: 'imap' | 'smtp'): boolean {
    if (this.refuses[side] === 0) return false;
    this.refuses[side] -= 1;
    return true;
  }

  /** True: the command is answered. */
  private answer(command: Command, session: FakeSession): boolean {
    const { json, words } = this.dialect.imap;
    const login = this.challenged.get(session);
    if (login) {
      this.challenged.delete(session);
      this.acknowledged.push(command.tag);
      session.done(login, words);
    } else if (command.name === 'AUTHENTICATE') {
      this.logins.push(Date.now());
      if (!this.isRefused('imap')) {
        this.loggedIn.add(session);
        session.done(command, `OK [CAPABILITY ${this.imap.capabilities}] AUTHENTICATE completed.`);
      } else if (json === undefined) session.done(command, words);
      else {
        this.challenged.set(session, command);
        session.write(`+ ${Buffer.from(json).toString('base64')}\r\n`);
      }
    } else {
      const text = this.loggedIn.has(session) ? this.says(command) : undefined;
      if (text === undefined) return false;
      session.done(command, text);
    }
    return true;
  }

  private reply(moment: string, line: string): SmtpReaction | undefined {
    const { json, words } = this.dialect.smtp;
    if (moment === 'AUTH') {
      if (!this.isRefused('smtp')) return '235 2.7.0 Authentication successful';
      return json === undefined ? words : `334 ${Buffer.from(json).toString('base64')}`;
    }
    // what follows an error in JSON is no command
    if (moment !== '' && moment !== 'AQ==') return undefined;
    this.acknowledged.push(line);
    return words;
  }
}
