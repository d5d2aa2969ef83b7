import { useRef } from 'preact/hooks';
import { type Answer, ApiFailure, take } from './client.ts';

type Headers = Record<'Idempotency-Key', string>;

/**
 * Returns what makes calls that create something, or send it: repeated with the same `content` after a lost response, a call does
 * nothing again. `content`: what the call says, and to whom. `shared`: the keys of calls whose outcome is not known, if they outlive the
 * component. @throws as `take`
 */
export function useOnce(
  shared?: Map<string, string>,
): <T>(content: unknown, call: (headers: Headers) => Promise<Answer<T>>) => Promise<T> {
  const undecided = useRef(shared ?? new Map<string, string>());
  return async (content, call) => {
    const keys = undecided.current;
    const text = JSON.stringify(content);
    const key = keys.get(text) ?? randomKey();
    keys.set(text, key);
    try {
      const done = await take(call({ 'Idempotency-Key': key }));
      keys.delete(text);
      return done;
    } catch (failure) {
      if (isRefusal(failure)) keys.delete(text);
      throw failure;
    }
  };
}

/** Whether the call has done nothing, for good: its key would repeat the refusal after its cause is gone. */
export function isRefusal(failure: unknown): boolean {
  const status = failure instanceof ApiFailure ? failure.status : 0;
  // 409: the first call may be in progress; 429: the next one is the same call
  return status >= 400 && status < 500 && status !== 409 && status !== 429;
}

/** Not `randomUUID`, which pages without HTTPS do not have. */
function randomKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
