import createClient from 'openapi-fetch';
import type { components, paths } from './schema.d.ts';

export type Schemas = components['schemas'];
export type Account = Schemas['Account'];
export type Email = Schemas['Email'];
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
export type Overview = Schemas['Overview'];
export type Session = Schemas['Session'];

/** Where the API is, whatever path it is served under. */
export const BASE = new URL('.', document.baseURI).href.replace(/\/$/, '');

/** An answer of the API that is no success, in its own words. */
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

/** The public API; the cookie of the session goes along by itself. */
export const api = createClient<paths>({ baseUrl: BASE, credentials: 'same-origin' });

let signedOut: () => void = () => {};
/** What to do when the session has ended. */
export function onSignedOut(action: () => void): void {
  signedOut = action;
}

interface Answer<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** The body of a success. @throws ApiFailure; the session having ended is reported besides */
export async function take<T>(call: Promise<Answer<T>>): Promise<T> {
  let answer: Answer<T>;
  try {
    answer = await call;
  } catch {
    throw new ApiFailure(0, { title: 'Not reachable', detail: 'The server cannot be reached. It is tried again.' });
  }
  const { data, error, response } = answer;
  if (response.ok) return data as T;
  const failure = new ApiFailure(response.status, error as Partial<Schemas['Error']>);
  if (response.status === 401 && failure.type === 'errors/unauthorized') signedOut();
  throw failure;
}

/** The text of anything that was thrown. */
export function wordsOf(error: unknown): { title: string; detail: string } {
  if (error instanceof ApiFailure) return { title: error.title, detail: sentence(error.message) };
  return { title: 'Something went wrong', detail: error instanceof Error ? error.message : String(error) };
}

function sentence(text: string): string {
  const head = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(head) ? head : `${head}.`;
}
