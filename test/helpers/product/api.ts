import type { Account } from '../../../src/contract/account.ts';
import type { FolderChoice } from '../../../src/contract/mailbox-config.ts';
import type { Email } from '../../../src/contract/email.ts';
import { EVENT_TYPES, type EventType } from '../../../src/contract/events.ts';
import type { Folder } from '../../../src/contract/folder.ts';
import type { WebhookEndpoint } from '../../../src/contract/webhook.ts';
import { operationOf } from '../assert/documented.ts';
import type { MailLogin } from './mail-user.ts';
import type { Receiver } from '../fakes/receiver.ts';
import { isRecording, type RecordedCall, recordExample } from '../assert/record-example.ts';

/** An answer of the API that is not 2xx. */
export class ApiFailure extends Error {
  readonly status: number;
  readonly body: { status: number; type: string; title: string; detail: string };

  constructor(request: string, status: number, body: ApiFailure['body']) {
    super(`${request}: ${status} ${body.type} ${body.detail}`);
    this.status = status;
    this.body = body;
  }
}

const WITH_A_MAILBOX = ['createDraft', 'updateDraft', 'sendDraft'];

/** A list that pages by cursor. */
export interface Page<T> {
  data: T[];
  has_more: boolean;
  cursor: string | null;
}

/** The public HTTP API as a customer calls it; paths are relative to /api/v1. */
export class Api {
  readonly base: string;
  readonly key: string;
  /** the accounts connected by this object */
  readonly connected = new Set<string>();
  private document: unknown;

  constructor(base: string, key: string) {
    this.base = base;
    this.key = key;
  }

  /** The raw response of any status. */
  request(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Response> {
    return fetch(`${this.base}/api/v1${path}`, {
      method,
      headers: {
        'X-API-KEY': this.key,
        ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  }

  /** The JSON of a 2xx answer. @throws ApiFailure */
  async call<T>(method: string, path: string, body?: unknown): Promise<T> {
    const response = await this.request(method, path, body);
    const text = await response.text();
    const json = (text ? JSON.parse(text) : undefined) as unknown;
    if (!response.ok) throw new ApiFailure(`${method} ${path}`, response.status, json as ApiFailure['body']);
    await this.record({ method, url: `/api/v1${path}`, status: response.status, request: body, body: text });
    return json as T;
  }

  /** Records the examples that need a mailbox; the tests in test/api record the others. */
  private async record(made: RecordedCall): Promise<void> {
    if (!isRecording()) return;
    this.document ??= await (await fetch(`${this.base}/openapi.json`)).json();
    const id = operationOf(this.document, made.method, made.url)?.operationId;
    if (id !== undefined && WITH_A_MAILBOX.includes(id)) recordExample(this.document, made);
  }

  get<T>(path: string): Promise<T> {
    return this.call('GET', path);
  }

  post<T>(path: string, body?: unknown): Promise<T> {
    return this.call('POST', path, body);
  }

  patch<T>(path: string, body: unknown): Promise<T> {
    return this.call('PATCH', path, body);
  }

  delete<T>(path: string): Promise<T> {
    return this.call('DELETE', path);
  }

  email(accountId: string, emailId: string): Promise<Email> {
    return this.get(`/${accountId}/emails/${emailId}`);
  }

  emails(accountId: string, query: Record<string, string> = {}): Promise<Page<Email>> {
    return this.get(`/${accountId}/emails?${new URLSearchParams(query).toString()}`);
  }

  async folders(accountId: string): Promise<Folder[]> {
    return (await this.get<{ data: Folder[] }>(`/${accountId}/folders`)).data;
  }

  async folder(accountId: string, nameOrRole: string): Promise<Folder> {
    const all = await this.folders(accountId);
    const found = all.find(({ name, role }) => role === nameOrRole || name === nameOrRole);
    if (!found) throw new Error(`no folder ${nameOrRole} among ${all.map(({ name }) => name).join(', ')}`);
    return found;
  }

  /** Connects a test user's mailbox. */
  async connect(user: MailLogin, more: ConnectOptions = {}): Promise<Account> {
    const account = await this.post<Account>('/auth/intent', intentFor(user, more));
    this.connected.add(account.id);
    return account;
  }

  /** Creates an endpoint that calls the receiver, which then checks its signatures. */
  async listen(
    receiver: Receiver,
    options: { types?: EventType[]; accounts?: string[] } = {},
  ): Promise<WebhookEndpoint> {
    const endpoint = await this.post<WebhookEndpoint>('/webhooks/endpoints', {
      url: receiver.url,
      trigger_events: options.types ?? EVENT_TYPES,
      ...(options.accounts ? { account_ids: options.accounts } : {}),
    });
    receiver.secrets.set(endpoint.id, endpoint.secret);
    return endpoint;
  }
}

export interface ConnectOptions {
  /** ports of proxies between the product and the servers */
  imapPort?: number;
  smtpPort?: number;
  encryption?: 'none' | 'starttls';
  config?: {
    initial_sync_enable?: boolean;
    initial_sync_days?: number;
    history?: 'all' | 'none' | number;
    folders?: FolderChoice;
    watch?: boolean;
  };
  state?: string;
  account_id?: string;
  name?: string;
}

/** The body of POST /auth/intent that connects a test user, by default without TLS. */
export function intentFor(
  user: MailLogin,
  { imapPort, smtpPort, encryption = 'none', ...more }: ConnectOptions = {},
): Record<string, unknown> {
  const side = (port: number) => ({ host: '127.0.0.1', port, encryption });
  return {
    provider: 'imap',
    credentials: {
      user: user.user,
      password: user.password,
      imap: side(imapPort ?? user.imapPort),
      smtp: side(smtpPort ?? user.submissionPort),
    },
    ...more,
  };
}
