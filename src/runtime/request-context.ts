import { AsyncLocalStorage } from 'node:async_hooks';

const requests = new AsyncLocalStorage<string>();

/** The `X-Request-Id` of the API call that the current work belongs to; undefined: none. */
export function currentRequestId(): string | undefined {
  return requests.getStore();
}

/** Runs work as a part of an API call: its log lines and the workflows that it starts bear the id. */
export function withRequestId<T>(requestId: string, work: () => T): T {
  return requests.run(requestId, work);
}
