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
} as const;

export type IdKind = keyof typeof ID_PREFIXES;

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
