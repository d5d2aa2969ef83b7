import { describe, expect, it } from '@jest/globals';
import { type EmailState, transition } from '../../src/mailbox/email-transition.ts';

const state = (over: Partial<EmailState> = {}): EmailState => ({
  missing: false,
  shown: ['fld_inbox'],
  roles: ['INBOX'],
  isUnread: true,
  flags: [],
  isDraft: false,
  ...over,
});
const draft = state({ isDraft: true, shown: ['fld_drafts'], roles: ['DRAFTS'] });

describe('a change of an email', () => {
  const cases: [string, EmailState, EmailState, string[]][] = [
    ['tells nothing when nothing shows', state(), state(), []],
    ['tells that it was read', state(), state({ isUnread: false }), ['email.update']],
    ['tells that it was starred', state(), state({ flags: ['\\flagged'] }), ['email.update']],
    ['tells that a keyword was removed', state({ flags: ['$label1'] }), state(), ['email.update']],
    ['tells nothing when its flags become known', state({ flags: null }), state({ flags: ['\\flagged'] }), []],
    ['tells flags while no folder holds it', state(), state({ missing: true, flags: ['a'] }), ['email.update']],
    [
      'tells one move once',
      state(),
      state({ shown: ['fld_x'], roles: ['UNKNOWN'], isUnread: false }),
      ['email.update'],
    ],
    ['waits while no folder holds it', state(), state({ missing: true, shown: ['fld_inbox'], roles: [] }), []],
    [
      'tells the move when it is found',
      state({ missing: true, roles: [] }),
      state({ shown: ['fld_x'], roles: ['TRASH'] }),
      ['email.update'],
    ],
    ['tells nothing when it comes back where it was', state({ missing: true, roles: [] }), state(), []],
    ['tells no flags of drafts', draft, { ...draft, isUnread: false }, []],
    ['makes mail moved into Drafts a draft', state(), { ...draft, isDraft: false }, ['email.draft.new']],
    [
      'makes a draft moved to Trash an email',
      draft,
      state({ isDraft: true, shown: ['fld_trash'], roles: ['TRASH'] }),
      ['email.draft.delete', 'email.update'],
    ],
    [
      'takes a draft moved to Sent for sent',
      draft,
      state({ isDraft: true, shown: ['fld_sent'], roles: ['SENT'] }),
      ['email.draft.delete', 'email.new'],
    ],
  ];
  it.each(cases)('%s', (_, before, after, events) => {
    expect(transition(before, after).events).toEqual(events);
  });
});
