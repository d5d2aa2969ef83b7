import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { getTableConfig, PgDialect, type PgTable } from 'drizzle-orm/pg-core';
import { ACCOUNT_STATUSES, INITIAL_SYNC_STATUSES } from '../../src/contract/account.ts';
import { IMPORT_STATUSES } from '../../src/contract/runs/import.ts';
import { REPLAY_STATUSES } from '../../src/contract/runs/replay.ts';
import { DELIVERY_STATUSES } from '../../src/contract/webhook.ts';
import { drafts, sends } from '../../src/db/schema/index.ts';

/* docs/states.md draws every state that the code has, no other, and lists the transitions of each. */

const ROOT = join(import.meta.dirname, '..', '..');
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');

/** The values that the check constraint of a state column allows. */
function allowedBy(table: PgTable, constraint: string): string[] {
  const found = getTableConfig(table).checks.find(({ name }) => name === constraint);
  return quoted(found ? new PgDialect().sqlToQuery(found.value).sql : '');
}

/** The states that a workflow shows to operators. */
function shownBy(path: string): string[] {
  const shows = read(path)
    .split('\n')
    .filter((line) => /\b(?:trackState|enter|show)\(/.test(line));
  return quoted(shows.join('\n'));
}

const quoted = (text: string) => [...text.matchAll(/'(\w+)'/g)].map(([, word = '']) => word);
const sorted = (states: Iterable<string>) => [...new Set(states)].sort();

/** The first diagram and the first table of a section. */
function sectionOf(heading: string): { drawn: string[]; listed: string[] } {
  const section =
    read('docs/states.md')
      .split(/^## /m)
      .find((part) => part.startsWith(`${heading}\n`)) ?? '';
  const [own = ''] = section.split(/^### /m);
  const diagram = /```mermaid\n([^]*?)```/.exec(own)?.[1] ?? '';
  const arrows = [...diagram.matchAll(/^ *(\S+) --> ([^\s:]+)/gm)].flatMap(([, from = '', to = '']) => [from, to]);
  const firstCells = [...own.matchAll(/^\| ([^|]*)\|/gm)].map(([, cell = '']) => cell);
  return {
    drawn: sorted(arrows.filter((state) => state !== '[*]')),
    listed: sorted(firstCells.flatMap((cell) => [...cell.matchAll(/`(\w+)`/g)].map(([, state = '']) => state))),
  };
}

/** Parts of `pending` that the page tells apart. */
const WITHIN_PENDING = ['waiting', 'held', 'attempting'];

describe('docs/states.md', () => {
  it.each([
    { heading: 'Account', states: [...ACCOUNT_STATUSES, ...shownBy('src/workflows/account.ts')] },
    { heading: 'Initial sync', states: INITIAL_SYNC_STATUSES },
    { heading: 'Import', states: [...IMPORT_STATUSES, ...shownBy('src/workflows/import-history.ts')] },
    { heading: 'Send', states: allowedBy(sends, 'sends_state') },
    { heading: 'Draft', states: allowedBy(drafts, 'drafts_state') },
    { heading: 'Delivery', states: DELIVERY_STATUSES, within: WITHIN_PENDING },
    { heading: 'Replay', states: REPLAY_STATUSES },
  ])('draws and lists the states of $heading', ({ heading, states, within = [] }) => {
    const { drawn, listed } = sectionOf(heading);
    expect(states.length).toBeGreaterThan(2);
    expect(drawn).toEqual(sorted([...states, ...within]));
    expect(listed).toEqual(sorted(states));
  });
});
