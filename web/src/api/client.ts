import createClient from 'openapi-fetch';
import type { components, paths } from './schema.d.ts';

export type Schemas = components['schemas'];
export type Account = Schemas['Account'];
export type Email = Schemas['Email'];
export type ThreadSummary = Schemas['ThreadSummary'];
export type EmailBatch = Schemas['EmailBatch'];
export type Import = Schemas['Import'];
export type Folder = Schemas['Folder'];
export type Endpoint = Schemas['WebhookEndpoint'];
export type Delivery = Schemas['WebhookConversation'];
export type DeliveryDetail = Schemas['WebhookConversationDetail'];
export type Replay = Schemas['Replay'];
export type ListedEvent = Schemas['ListedEvent'];
export type HistoryEntry = Schemas['HistoryEntry'];
export type ApiKey = Schemas['ApiKey'];
export type AuditRecord = Schemas['AuditRecord'];
export type AuthLink = Schemas['AuthLink'];
export type OAuthApp = Schemas['OAuthApp'];
export type Person = Schemas['Person'];
export type Overview = Schemas['Overview'];
export type Session = Schemas['Session'];

/** Base URL of the API, below the path under which a proxy serves it. */
export const BASE = new URL('.', document.baseURI).href.replace(/\/$/, '');

/** An error response of the API. */
export class ApiFailure extends Error {
  readonly status: number;
  readonly type: string;
  readonly title: string;
  constructor(status: number, body: Partial<Schemas['Error']> | undefined) {
    super(body?.detail ?? 'The server gave no reason.');
    this.status = status;
    this.type = body?.type ?? '';
    this.title = body?.title ?? `Error ${status}`;
  }
}

/** Client of the public API; the browser sends the session cookie. */
export const api = createClient<paths>({ baseUrl: BASE, credentials: 'same-origin' });
api.use({ onError: ({ request }) => unreachable(request.method) });

/** The failure of a call without a response. */
function unreachable(method: string): ApiFailure {
  const detail =
    method === 'GET'
      ? 'The server cannot be reached. It is tried again.'
      : 'The server did not answer. It may have been done all the same.';
  return new ApiFailure(0, { title: 'Not reachable', detail });
}

let signedOut: () => void = () => {};
/** Called when the session has expired. */
export function onSignedOut(action: () => void): void {
  signedOut = action;
}

/** What a call of `api` returns. */
export interface Answer<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** Returns the body of a successful response. @throws ApiFailure; reports an expired session as well */
export async function take<T>(call: Promise<Answer<T>>): Promise<T> {
  const { data, error, response } = await call;
  if (response.ok) return data as T;
  const failure = new ApiFailure(response.status, error as Partial<Schemas['Error']>);
  if (response.status === 401 && failure.type === 'errors/unauthorized') signedOut();
  throw failure;
}

/** Reads from a route of the sign-in page, which is no part of the public API. @throws as `take` */
export const getPage = <T>(path: string): Promise<T> => callPage(path, { method: 'GET' });

/** Calls a route of the sign-in page, which is no part of the public API. @throws as `take` */
export function postPage<T>(path: string, body: object): Promise<T> {
  const headers = { 'Content-Type': 'application/json' };
  return callPage(path, { method: 'POST', headers, body: JSON.stringify(body) });
}

function callPage<T>(path: string, init: RequestInit & { method: string }): Promise<T> {
  const call = fetch(`${BASE}${path}`, init).catch(() => {
    throw unreachable(init.method);
  });
  return take<T>(
    call.then(async (response) => {
      const json = (await response.json().catch(() => undefined)) as T;
      return response.ok ? { data: json, response } : { error: json, response };
    }),
  );
}

/** The message of any thrown value. */
export function wordsOf(error: unknown): { title: string; detail: string } {
  if (error instanceof ApiFailure) return { title: error.title, detail: sentence(error.message) };
  return { title: 'Something went wrong', detail: error instanceof Error ? error.message : String(error) };
}

function sentence(text: string): string {
  // a message about a field begins with its name
  const plain = text.replace(/^[a-z]+(_[a-z]+)+/, (name) => name.replaceAll('_', ' '));
  const head = plain.charAt(0).toUpperCase() + plain.slice(1);
  return /[.!?]$/.test(head) ? head : `${head}.`;
}
