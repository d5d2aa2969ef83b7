import type { ClientRequest } from 'node:http';

/**
 * Calls `fail` when a request ends without a response and without an error, as Node ends it when the server switches protocols (101).
 * Once there is a response, its own end or error counts.
 */
export function onUnanswered(request: ClientRequest, fail: (error: Error) => void): void {
  let hasResponse = false;
  request.once('response', () => (hasResponse = true));
  request.once('close', () => {
    if (!hasResponse) fail(Object.assign(new Error('closed without a response'), { code: 'ECONNRESET' }));
  });
}
