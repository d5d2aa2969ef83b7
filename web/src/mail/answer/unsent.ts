/*
 * What was written as an answer to an email and has not been sent. It outlives its form, and without its files also a reload of
 * the page, until it is sent, or the session becomes that of another person or key, or of none.
 */

/** The fields of an answer. */
export interface Written {
  to: string;
  cc: string;
  subject: string;
  text: string;
  files: readonly File[];
  /** names of the files that a reload of the page has dropped */
  dropped?: readonly string[];
}

/** Of the session of this tab; another tab has another one. */
const KEY = 'unsent';

interface Kept {
  /** id of the person or key that wrote it */
  by: string;
  /** by the email and the kind of answer */
  answers: Record<string, Written>;
  /** those whose send has no outcome yet, or none that is known */
  undecided: Record<string, true>;
}

let kept = read();
/** Idempotency keys of sends whose outcome is not known: a form that opens again repeats the same send. */
export const undecidedSends = new Map<string, string>();

function read(): Kept {
  try {
    return { undecided: {}, ...(JSON.parse(sessionStorage.getItem(KEY) ?? '') as Omit<Kept, 'undecided'>) };
  } catch {
    return { by: '', answers: {}, undecided: {} };
  }
}

/** Files cannot be stored: their names are. */
function storable(written: Written): Written {
  const dropped = [...(written.files.length > 0 ? written.files.map(({ name }) => name) : (written.dropped ?? []))];
  return { ...written, files: [], dropped };
}

function store(): void {
  try {
    if (Object.keys(kept.answers).length === 0) sessionStorage.removeItem(KEY);
    else {
      const answers = Object.fromEntries(Object.entries(kept.answers).map(([name, each]) => [name, storable(each)]));
      sessionStorage.setItem(KEY, JSON.stringify({ ...kept, answers }));
    }
  } catch {
    // full, or switched off: kept until the page is left
  }
}

/** Keeps what this person or key wrote, and nothing of another; null: of none, after a sign-out. */
export function keepUnsentOf(identity: string | null): void {
  const by = identity ?? '';
  if (kept.by === by && by !== '') return;
  kept = { by, answers: {}, undecided: {} };
  undecidedSends.clear();
  store();
}

/** The id of the person or key whose texts are kept. */
export const writer = (): string => kept.by;

/** What was written; undefined: nothing, or it was sent. */
export const unsentOf = (answer: string): Written | undefined => kept.answers[answer];

/** Keeps what is written; undefined: as good as nothing. */
export function keepUnsent(answer: string, written: Written | undefined): void {
  if (written) kept.answers[answer] = written;
  else {
    delete kept.answers[answer];
    delete kept.undecided[answer];
  }
  store();
}

/** Whether the answer may have been sent. */
export const isUndecided = (answer: string): boolean => kept.undecided[answer] === true;

/** Keeps whether the answer may have been sent: before it is, and after a response says that it was not. */
export function keepUndecided(answer: string, undecided: boolean): void {
  if (undecided) kept.undecided[answer] = true;
  else delete kept.undecided[answer];
  store();
}

/** Forgets what was sent, unless it has been changed since. */
export function forgetSent(answer: string, sent: Written): void {
  keepUndecided(answer, false);
  if (kept.answers[answer] === undefined || isSame(kept.answers[answer], sent)) keepUnsent(answer, undefined);
}

/** Whether both say the same, with the same files. */
export function isSame(one: Written, other: Written): boolean {
  const names = ['to', 'cc', 'subject', 'text'] as const;
  return (
    names.every((name) => one[name] === other[name]) &&
    one.files.length === other.files.length &&
    one.files.every((file, index) => file === other.files[index])
  );
}
