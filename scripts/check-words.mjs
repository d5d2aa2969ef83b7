// `npm run lint:words [-- --count] [-- PATH…]`: fails on words that AGENTS.md replaces by a standard term and on phrases that
// plain English replaces, in identifiers, comments, texts and docs. `--count` prints numbers for each room instead of lines.
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, extname, join, relative } from 'node:path';
import { root } from './install.mjs';

/** Words with a standard term in the glossary: their forms, the term, and the lines in which the word is right. */
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

/** Phrases that a native writer avoids, and what to write. */
const PHRASES = [
  { forms: 'any more', write: 'no longer' },
  { forms: 'nobody', write: 'no caller, no other process, no user', unless: /nobody@/ },
  { forms: 'somebody', write: 'another client, another process, a user' },
  { forms: 'whoever', write: 'the caller, the user, a process that' },
  { forms: 'meanwhile', write: 'in the meantime, until then, while …' },
  { forms: 'goes on|go on|going on|went on|gone on', write: 'continues, keeps …ing' },
  { forms: 'by itself|by themselves', write: 'automatically, alone' },
  { forms: 'there is no|there is none|there are none', write: 'has no, without, is missing, none exists' },
  { forms: 'taken for|takes for|take for', write: 'treated as' },
  { forms: 'of its own|of their own', write: 'its own …, a separate …' },
  { forms: 'now and then', write: 'periodically, sometimes' },
  { forms: 'looked at again', write: 'checked again' },
]
  .map(({ forms, ...rest }) => ({ ...rest, pattern: patternOf(forms) }))
  .concat([
    { pattern: /\bis no [a-z]+ (?:of|that)\b/g, write: 'is not a … of, does not …' },
    { pattern: /\* The same (?:of|in|with|for|as)\b/g, write: 'the whole docstring' },
    { pattern: /\b(?:CONTRACT|SPEC)\b/g, write: 'the rule, or an RFC, README or page of docs' },
  ]);

/** Often right: `--count` counts them, nothing fails. */
const COUNTED = ['so that', 'at once'].map((forms) => ({ pattern: patternOf(forms), write: 'count' }));

/** Rooms (two segments of the path) whose phrases are not rewritten yet. */
const NOT_YET = new Set(['CHANGELOG.md']);

const PLACES = ['src', 'test', 'bench', 'scripts', 'docs'];
const FILES = /^(?:[^/]+\.(?:ts|js|md|yml)|Dockerfile|\.env\.example)$/;
const EXTENSIONS = new Set(['.ts', '.mjs', '.cjs', '.js', '.md', '.sql']);
const EXCLUDED =
  /^(?:test\/(?:fixtures|histories)\/|src\/db\/migrations\/|scripts\/check-words\.mjs$|test\/api\/http\/openapi-texts\.test\.ts$)/;

/** Matches the words as they are, capitalised, inside camelCase names and over the end of a line; never a part of a word. */
function patternOf(forms) {
  const gap = '(?:[ -]|\\s*\\n\\s*(?:\\*|//|#|--)?\\s*)?';
  const variants = forms.split('|').map((form) => {
    const [first, ...others] = form.split(' ');
    const rest = others.map((word) => `${gap}[${word[0].toUpperCase()}${word[0]}]${word.slice(1)}`).join('');
    const start = first[0].toUpperCase();
    return `(?:(?<![A-Za-z])${first[0]}|(?<![A-Z])${start})${first.slice(1)}${rest}`;
  });
  return new RegExp(`(?:${variants.join('|')})(?![a-z])`, 'g');
}

function filesIn(path) {
  if (statSync(path).isFile()) return [path];
  return readdirSync(path, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && EXTENSIONS.has(extname(entry.name)))
    .map((entry) => join(entry.parentPath, entry.name));
}

/** `src/imap`, `docs/errors.md`, `README.md`. */
function roomOf(path) {
  return path.split('/').slice(0, 2).join('/');
}

function offendersIn(path, rules) {
  const text = readFileSync(join(root, path), 'utf8');
  const lines = text.split('\n');
  return rules.flatMap(({ pattern, write, unless }) =>
    [...text.matchAll(pattern)]
      .map(({ 0: found, index }) => ({
        path,
        line: text.slice(0, index).split('\n').length,
        word: oneLine(found),
        write,
      }))
      .filter(({ line }) => !unless?.test(lines[line - 1])),
  );
}

const oneLine = (text) => text.replaceAll(/\s*\n\s*(?:\*|\/\/|#|--)?\s*/g, ' ');

const args = process.argv.slice(2);
const chosen = args.filter((arg) => !arg.startsWith('--')).map((arg) => join(root, arg));
const all = [...PLACES.map((place) => join(root, place)), ...readdirSync(root).filter((name) => FILES.test(name))];
const paths = (chosen.length > 0 ? chosen : all.map((path) => (dirname(path) === '.' ? join(root, path) : path)))
  .flatMap(filesIn)
  .map((path) => relative(root, path))
  .filter((path) => !EXCLUDED.test(path));
const rulesOf = (path) => (NOT_YET.has(roomOf(path)) ? WORDS : [...WORDS, ...PHRASES]);

if (args.includes('--count')) {
  const counts = new Map();
  for (const { path, word } of paths.flatMap((path) => offendersIn(path, [...WORDS, ...PHRASES, ...COUNTED]))) {
    const room = counts.get(roomOf(path)) ?? new Map();
    counts.set(roomOf(path), room.set(word.toLowerCase(), (room.get(word.toLowerCase()) ?? 0) + 1));
  }
  for (const [room, words] of [...counts].sort()) {
    const total = [...words.values()].reduce((sum, count) => sum + count, 0);
    console.log(`${room}: ${total} (${[...words].map(([word, count]) => `${word} ${count}`).join(', ')})`);
  }
} else {
  const offenders = paths.flatMap((path) => offendersIn(path, rulesOf(path)));
  for (const { path, line, word, write } of offenders) console.error(`${path}:${line}: "${word}": write ${write}`);
  if (offenders.length > 0) process.exitCode = 1;
}
