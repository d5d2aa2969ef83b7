// `npm run lint:words [-- --count] [-- PATH…]`: fails on words that AGENTS.md replaces by a standard term, in identifiers,
// comments, texts and docs. `--count` prints numbers for each room instead of lines.
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, extname, join, relative } from 'node:path';
import { root } from './install.mjs';

/** What may not come back: forms of a word (also as part of a camelCase name), what to write, and lines where it is right. */
const WORDS = [
  { forms: 'told', write: 'emitted, reported, notified' },
  { forms: 'taken? in|takes in|taking in|took in', write: 'ingest' },
  {
    forms: 'letters?',
    write: 'message',
    unless: /\b(Unicode|ASCII|alphabet|digits?|characters?|LC_CTYPE|locale|words?|case)\b/i,
  },
  { forms: 'insist(?:s|ed|ing)?', write: 'retryUntil…' },
  { forms: 'stand-?[iI]ns?', write: 'provisional email' },
  { forms: 'findable', write: 'setSearchAttributes' },
  { forms: 'beating', write: 'heartbeat' },
  { forms: 'look at all', write: 'sync pass' },
  { forms: 'lies?|lay|lying', write: 'is in, has a location' },
  { forms: 'placements?', write: 'location' },
  { forms: 'in step', write: 'in sync' },
  { forms: 'lanes?', write: 'dispatch limiter' },
  { forms: 'leash', write: 'orphan guard' },
  { forms: 'strangers?', write: 'unmatched' },
  { forms: 'manners?', write: 'source' },
  { forms: 'hears?|heard', write: 'listen, notification' },
].map(({ forms, ...rest }) => ({ ...rest, pattern: patternOf(forms) }));

const PLACES = ['src', 'test', 'bench', 'scripts', 'docs'];
const FILES = /^(?:[^/]+\.(?:ts|js|md|yml)|Dockerfile|\.env\.example)$/;
const EXTENSIONS = new Set(['.ts', '.mjs', '.cjs', '.js', '.md', '.sql']);
const EXCLUDED = /^(?:test\/(?:fixtures|histories)\/|src\/db\/migrations\/|scripts\/check-words\.mjs$)/;

/** Matches the words as they are, capitalised, and joined as in `standIn`; never a part of a longer word. */
function patternOf(forms) {
  const variants = forms.split('|').map((form) => {
    const [first, ...others] = form.split(' ').map((word) => `[${word[0].toUpperCase()}${word[0]}]${word.slice(1)}`);
    return [first, ...others].join('[ -]?');
  });
  return new RegExp(`(?<![a-z])(?<![A-Z](?=[A-Za-z]))(?:${variants.join('|')})(?![a-z])`, 'g');
}

function filesIn(path) {
  if (statSync(path).isFile()) return [path];
  return readdirSync(path, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && EXTENSIONS.has(extname(entry.name)))
    .map((entry) => join(entry.parentPath, entry.name));
}

/** `src/imap`, `test/live`, else the folder right under the root. */
function roomOf(path) {
  const [first, second, third] = path.split('/');
  return third === undefined ? (second === undefined ? '.' : first) : `${first}/${second}`;
}

function offendersIn(path) {
  return readFileSync(join(root, path), 'utf8')
    .split('\n')
    .flatMap((line, index) =>
      WORDS.flatMap(({ pattern, write, unless }) =>
        unless?.test(line) ? [] : [...line.matchAll(pattern)].map(([word]) => ({ path, line: index + 1, word, write })),
      ),
    );
}

const args = process.argv.slice(2);
const chosen = args.filter((arg) => !arg.startsWith('--')).map((arg) => join(root, arg));
const all = [...PLACES.map((place) => join(root, place)), ...readdirSync(root).filter((name) => FILES.test(name))];
const paths = (chosen.length > 0 ? chosen : all.map((path) => (dirname(path) === '.' ? join(root, path) : path)))
  .flatMap(filesIn)
  .map((path) => relative(root, path))
  .filter((path) => !EXCLUDED.test(path));
const offenders = paths.flatMap(offendersIn);

if (args.includes('--count')) {
  const counts = new Map();
  for (const { path, word } of offenders) {
    const room = counts.get(roomOf(path)) ?? new Map();
    counts.set(roomOf(path), room.set(word.toLowerCase(), (room.get(word.toLowerCase()) ?? 0) + 1));
  }
  for (const [room, words] of [...counts].sort()) {
    const total = [...words.values()].reduce((sum, count) => sum + count, 0);
    console.log(`${room}: ${total} (${[...words].map(([word, count]) => `${word} ${count}`).join(', ')})`);
  }
} else {
  for (const { path, line, word, write } of offenders) console.error(`${path}:${line}: "${word}": write ${write}`);
}
if (offenders.length > 0) process.exitCode = 1;
