import type { FakeMessage } from './fake-imap.ts';
import { headerFields, inSet } from './fake-imap-wire.ts';

/** Messages that a SEARCH finds. Known keys: UID, sequence sets, DELETED, UNDELETED, HEADER; others find everything. */
export function searchMessages(messages: FakeMessage[], words: string[]): FakeMessage[] {
  let found = messages;
  const largest = messages.at(-1)?.uid ?? 0;
  words.forEach((word, index) => {
    const [first = '', second = ''] = words.slice(index + 1);
    switch (word.toUpperCase()) {
      case 'UID':
        found = found.filter(({ uid }) => inSet(first, uid, Math.max(largest, uid)));
        break;
      case 'DELETED':
        found = found.filter(({ flags }) => flags.has('\\Deleted'));
        break;
      case 'HEADER':
        found = found.filter(({ source }) =>
          headerFields(source, [first]).toString('latin1').toLowerCase().includes(second.toLowerCase()),
        );
        break;
    }
  });
  return found;
}

/** Whether LIST with a pattern names a path: `*` matches any text, `%` any without `/` (RFC 3501 6.3.8). */
export function matchesPattern(pattern: string, path: string): boolean {
  const source = pattern
    .replace(/[\\^$.|?+()[\]{}]/g, '\\$&')
    .replaceAll('*', '.*')
    .replaceAll('%', '[^/]*');
  return new RegExp(`^${source}$`).test(path);
}
