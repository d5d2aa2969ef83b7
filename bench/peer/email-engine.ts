import { randomBytes } from 'node:crypto';
import type { MailUser } from '../../test/helpers/product/mail-user.ts';
import { waitFor } from '../../test/helpers/assert/wait.ts';
import { startReceiver } from '../../test/helpers/fakes/receiver.ts';
import { mailboxes, reportsTo } from '../ground/setup.ts';
import { filling } from '../reads.ts';
import { HTML } from '../sends.ts';
import { DOMAIN, type Search, type Side } from './side.ts';

/** When an account has read its folders: mail that arrives before is not reported as new. */
const READ = 'accountInitialized';
/** What the events of the product's receiver are here. */
const HEARD = [
  READ,
  ...['messageNew', 'messageBounce', 'messageUpdated', 'messageDeleted'],
  ...['authenticationSuccess', 'authenticationError', 'connectError'],
];
const TERMS: Record<Search, string> = { word: 'body', subject: 'subject', sender: 'from' };

interface Settings {
  url: string;
  token: string;
  pids: number[];
}

const VARIABLES = ['EMAILENGINE_URL', 'EMAILENGINE_TOKEN', 'EMAILENGINE_PIDS'];

/** The variables that say where the prepared EmailEngine is, and are not set. */
export const missingVariables = (): string[] => VARIABLES.filter((name) => !process.env[name]);

/** Where the prepared EmailEngine is; its processes, Redis included, are those whose CPU is counted. */
export function emailEngineSettings(): Settings {
  const [url = '', token = '', pids = ''] = VARIABLES.map((name) => process.env[name]);
  return { url: url.replace(/\/$/, ''), token, pids: pids.split(',').map(Number) };
}

/** The API of EmailEngine, below /v1. */
class Api {
  private readonly settings: Settings;

  constructor(settings: Settings) {
    this.settings = settings;
  }

  get headers(): Record<string, string> {
    return { Authorization: `Bearer ${this.settings.token}` };
  }

  url(path: string): string {
    return `${this.settings.url}/v1${path}`;
  }

  request(method: string, path: string, body?: unknown): Promise<Response> {
    return fetch(this.url(path), {
      method,
      headers: { ...this.headers, 'Content-Type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  }

  /** The JSON of a 2xx answer. */
  async call<T>(method: string, path: string, body?: unknown): Promise<T> {
    const response = await this.request(method, path, body);
    const text = await response.text();
    if (!response.ok) throw new Error(`EmailEngine: ${method} ${path}: ${response.status} ${text}`);
    return JSON.parse(text) as T;
  }
}

interface EngineEvent {
  event: string;
  account: string;
  data: { messageId?: string };
}

interface MessageList {
  messages: { id: string }[];
}

/** A prepared EmailEngine as a side of the comparison, with a receiver of its webhooks; `stop` removes its accounts. */
export async function emailEngineSide(settings: Settings): Promise<Side & { stop(): Promise<void> }> {
  const api = new Api(settings);
  const receiver = await startReceiver();
  const events = () => receiver.calls.map(({ event }) => event as unknown as EngineEvent);
  const accounts: string[] = [];
  const connect = async (user: MailUser) => {
    const id = `bench-${randomBytes(6).toString('hex')}`;
    await api.call('POST', '/account', accountOf(id, user));
    accounts.push(id);
    await waitFor(() => events().some(({ event, account }) => event === READ && account === id), {
      timeoutMs: 300_000,
      what: `EmailEngine to read ${id}`,
    });
    return { id };
  };
  const mailbox = mailboxes(connect);
  const request = (path: string) => ({ url: api.url(path), headers: api.headers });
  await api.call('POST', '/settings', { webhooksEnabled: true, webhooks: receiver.url, webhookEvents: HEARD });
  return {
    name: 'EmailEngine',
    pids: settings.pids,
    mailbox,
    ...reportsTo(receiver, ({ event }) => {
      const { event: type, data } = event as unknown as EngineEvent;
      return type === 'messageNew' ? data.messageId : undefined;
    }),
    filled: async (series, count) => (await mailbox({ fill: filling(series, count), domain: DOMAIN })).account.id,
    reads: async (account) => {
      const list = `/account/${account}/messages?path=INBOX&pageSize=50`;
      const { messages } = await api.call<MessageList>('GET', list);
      // a list has no bodies: they are read one by one
      const emails = messages.map(({ id }) => request(`/account/${account}/message/${id}?textType=*`));
      return { listWithBodies: [request(list), ...emails], list: [request(list)], oneEmail: emails.slice(0, 1) };
    },
    warmUp: 1,
    search: (account, search, text) =>
      api.request('POST', `/account/${account}/search?path=INBOX&pageSize=50`, { search: { [TERMS[search]]: text } }),
    hits: (body) => (body as MessageList).messages.length,
    send: async ({ account }, reader, series, number) => {
      const began = performance.now();
      const mail = { to: [{ address: reader.user }], subject: `${series} ${number}`, html: HTML };
      const response = await api.request('POST', `/account/${account.id}/submit`, mail);
      const { messageId } = (await response.json()) as { messageId?: string };
      return { ms: performance.now() - began, messageId };
    },
    stop: async () => {
      try {
        await api.call('POST', '/settings', { webhooksEnabled: false });
        for (const id of accounts) await api.call('DELETE', `/account/${id}`);
      } finally {
        await receiver.close();
      }
    },
  };
}

/** Both ends upgrade to TLS, as the product is set to; the certificate is made for the bench. */
function accountOf(account: string, user: MailUser) {
  const server = (port: number) => ({
    host: '127.0.0.1',
    port,
    secure: false,
    tls: { rejectUnauthorized: false },
    auth: { user: user.user, pass: user.password },
  });
  return {
    account,
    name: account,
    email: user.user,
    // times of arrival have whole seconds: mail of the second in which an account was added would count as old
    notifyFrom: new Date(Date.now() - 1_000).toISOString(),
    imap: server(user.imapPort),
    smtp: server(user.submissionPort),
  };
}
