import { describe, expect, it } from '@jest/globals';
import { planFolders } from '../../src/mailbox/folders/plan.ts';
import { renameCandidates, renamedParents } from '../../src/mailbox/folders/renames.ts';
import type { FolderFacts, FolderState } from '../../src/mailbox/store/folders.ts';

const folder = (path: string, over: Partial<FolderState> = {}): FolderState => ({
  id: `fld_${path}`,
  accountId: 'acc',
  path,
  delimiter: '/',
  name: path.split('/').at(-1) as string,
  parentId: null,
  role: 'UNKNOWN',
  selectable: true,
  localRevision: 0,
  flagsRead: true,
  uidValidity: 5,
  baselineUidNext: 1,
  uidNext: 10,
  highestModseq: null,
  scannedFrom: 1,
  totalCount: 3,
  unreadCount: 0,
  knownCount: 3,
  vacating: null,
  vacatedTo: null,
  renumbering: null,
  createdAt: new Date(),
  ...over,
});
const facts = (path: string, over: Partial<FolderFacts> = {}): FolderFacts => ({
  path,
  delimiter: '/',
  name: path.split('/').at(-1) as string,
  parentPath: path.includes('/') ? path.slice(0, path.lastIndexOf('/')) : null,
  role: 'UNKNOWN',
  selectable: true,
  status: { uidValidity: 5, uidNext: 10, highestModseq: null, messages: 3, unseen: 0 },
  ...over,
});

describe('a folder that is being vacated', () => {
  const vacating = folder('A', { vacating: 'noselect', selectable: false });

  it('is not kept, whatever the list says of it by now', () => {
    expect(planFolders([vacating], [facts('A')], new Map()).changed).toHaveLength(1);
    expect(planFolders([vacating], [facts('A', { selectable: false })], new Map()).changed).toHaveLength(1);
  });

  it('is not treated as a renamed one', () => {
    expect(renameCandidates([folder('A')], [facts('B')])).toHaveLength(1);
    expect(renameCandidates([{ ...vacating, selectable: true }], [facts('B')])).toEqual([]);
  });
});

describe('a comparison with the folder list', () => {
  it('finds what was created, deleted and kept', () => {
    const plan = planFolders([folder('A'), folder('B')], [facts('A'), facts('C')], new Map());
    expect(plan.created.map((f) => f.path)).toEqual(['C']);
    expect(plan.deleted.map((f) => f.path)).toEqual(['B']);
    expect(plan.kept.map(({ folder: f }) => f.path)).toEqual(['A']);
  });

  it('treats a renamed folder as changed, neither created nor deleted', () => {
    const plan = planFolders([folder('B')], [facts('C')], new Map([['B', 'C']]));
    expect([plan.created, plan.deleted]).toEqual([[], []]);
    expect(plan.changed.map(({ facts: f }) => f.path)).toEqual(['C']);
  });

  it('offers the surest rename first', () => {
    const pairs = renameCandidates(
      [folder('B')],
      [facts('C', { status: { uidValidity: 6, uidNext: 4, highestModseq: null, messages: 3, unseen: 0 } }), facts('D')],
    );
    expect(pairs.map((pair) => [pair.facts.path, pair.sameValidity])).toEqual([
      ['D', true],
      ['C', false],
    ]);
  });

  it('moves a parent without mail along with its children', () => {
    const stored = [folder('P', { selectable: false, uidNext: null }), folder('P/c')];
    const listed = [facts('Q', { selectable: false, status: null }), facts('Q/c')];
    expect([...renamedParents(stored, listed, new Map([['P/c', 'Q/c']]))]).toEqual([['P', 'Q']]);
  });
});
