import type { FakeMessage } from './fake-imap.ts';
import { headerFields, inSet } from './fake-imap-wire.ts';

/** Messages that a SEARCH finds. Known keys: UID, sequence sets, DELETED, UNDELETED, HEADER, OR of two HEADER; others find everything. */
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
        if (![words[index - 1], words[index - 4]].includes('OR'))
          found = found.filter((message) => hasInHeader(message, first, second));
        break;
      case 'OR': {
        const pairs = [words.slice(index + 2, index + 4), words.slice(index + 5, index + 7)];
        found = found.filter((message) => pairs.some(([name = '', text = '']) => hasInHeader(message, name, text)));
        break;
      }
    }
  });
  return found;
}

const hasInHeader = ({ source }: FakeMessage, name: string, text: string): boolean =>
  headerFields(source, [name]).toString('latin1').toLowerCase().includes(text.toLowerCase());

/** Whether LIST with a pattern names a path: `*` matches any text, `%` any without `/` (RFC 3501 6.3.8). */
export function matchesPattern(pattern: string, path: string): boolean {
  const source = pattern
    .replace(/[\\^$.|?+()[\]{}]/g, '\\$&')
    .replaceAll('*', '.*')
    .replaceAll('%', '[^/]*');
  return new RegExp(`^${source}$`).test(path);
}
