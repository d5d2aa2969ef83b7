/** Prefix of every public id. */
export const ID_PREFIXES = {
  account: 'acc',
  email: 'email',
  attachment: 'att',
  folder: 'fld',
  draft: 'drf',
  endpoint: 'we',
  event: 'evt',
  delivery: 'whc',
  apiKey: 'pk',
  person: 'per',
  audit: 'aud',
  tracking: 'trk',
  thread: 'thr',
  replay: 'rpl',
  import: 'imp',
  intent: 'int',
  authLink: 'lnk',
  change: 'chg',
  batch: 'bat',
  oauthApp: 'oap',
  deviceSignIn: 'dvc',
  alert: 'alr',
  upload: 'upl',
} as const;

export type IdKind = keyof typeof ID_PREFIXES;

/** What an id of each kind names, for descriptions. */
const NOUNS: Record<IdKind, string> = {
  account: 'account',
  email: 'email',
  attachment: 'attachment',
  folder: 'folder',
  draft: 'draft',
  endpoint: 'endpoint',
  event: 'event',
  delivery: 'delivery',
  apiKey: 'API key',
  person: 'person',
  audit: 'audit record',
  tracking: 'tracked email',
  thread: 'thread',
  replay: 'replay',
  import: 'import',
  intent: 'connect',
  authLink: 'link',
  change: 'change',
  batch: 'batch',
  oauthApp: 'OAuth app',
  deviceSignIn: 'sign-in',
  alert: 'alert',
  upload: 'upload',
};

/** Describes an id by its prefix and by what it names: "`acc_…` of the account". */
export const idText = (kind: IdKind, what = `of the ${NOUNS[kind]}`) => `\`${ID_PREFIXES[kind]}_…\` ${what}`;

/** Whether `value` is a well-formed id of that kind. Routes treat a malformed id as not found. */
export function isId(kind: IdKind, value: string): boolean {
  return idPattern(kind).test(value);
}

/** The pattern of ids of that kind. */
export function idPattern(kind: IdKind): RegExp {
  return PATTERNS[kind];
}

const PATTERNS = Object.fromEntries(
  Object.entries(ID_PREFIXES).map(([kind, prefix]) => [kind, new RegExp(`^${prefix}_[0-9a-hjkmnp-tv-z]{26}$`)]),
) as Record<IdKind, RegExp>;
