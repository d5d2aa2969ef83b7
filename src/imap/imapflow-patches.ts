import type { ImapFlow } from 'imapflow';
import { responseCode } from './response-codes.ts';
import type { Untagged } from './tokens.ts';

/** A range of UIDs, both ends included. */
export interface UidRange {
  from: number;
  to: number;
}

/** Expunged messages as QRESYNC reports them (RFC 7162 3.2.10), in a `vanished` event of the client. */
export interface VanishedEvent {
  path: string;
  /** the response to a command of ours, not a change of this moment */
  earlier: boolean;
  ranges: UidRange[];
}

type UntaggedHandler = (untagged: Untagged) => Promise<void>;

/** Private parts of imapflow that are called (command.ts, idle.ts) or replaced (patchClient). */
export interface ImapFlowInternals {
  untaggedVanished(untagged: Untagged, mailbox?: { path: string; exists: number }): Promise<void>;
  /** by the keyword of the response; called only for responses that no command in progress listens for */
  untaggedHandlers: Record<string, UntaggedHandler | undefined>;
  exec(
    command: string,
    args: unknown[],
    options?: { untagged: Record<string, UntaggedHandler> },
  ): Promise<{ response: Untagged; next(): void }>;
  run(command: string, ...args: unknown[]): Promise<unknown>;
}

/** The private parts of a client. @throws Error naming the part that this version of imapflow lacks */
export function internalsOf(client: ImapFlow): ImapFlowInternals {
  const internals = client as unknown as ImapFlowInternals;
  const { untaggedVanished, untaggedHandlers, exec, run } = internals;
  const isPresent: Record<string, boolean> = {
    exec: typeof exec === 'function',
    run: typeof run === 'function',
    untaggedVanished: typeof untaggedVanished === 'function',
    untaggedHandlers: typeof untaggedHandlers === 'object',
  };
  const missing = Object.keys(isPresent).filter((name) => !isPresent[name]);
  if (missing.length > 0) throw new Error(`this version of imapflow has no ${missing.join(', ')}`);
  return internals;
}

/**
 * Patches imapflow where it has no option:
 *
 * - quotes the names of folders;
 * - sends no FETCH or SEARCH to an empty folder: some servers (Apache James) refuse a set of UIDs there;
 * - enables UTF8=ACCEPT (RFC 6855) only where the server requires it: some that offer it (Courier) store names that no other
 *   mail program can list. `disableAutoEnable` would also turn off what imapflow does for servers that refuse IMAP4rev2;
 * - keeps a VANISHED as the ranges it came in: `1:4294967295` is 22 bytes on the wire, and imapflow emits one event for
 *   each UID;
 * - emits `messagelimit` with the limit when a response to a command reports one (RFC 9738).
 */
export function patchClient(client: ImapFlow): void {
  const internals = internalsOf(client);
  const exec = internals.exec.bind(client);
  const reportLimit = (response: Untagged | undefined) => {
    const code = response && responseCode(response);
    const events: NodeJS.EventEmitter = client;
    if (code?.name === 'MESSAGELIMIT') events.emit('messagelimit', Number(code.values[0]));
  };
  internals.exec = async (command, args, options) => {
    try {
      const result = await exec(command, BEGIN_WITH_NAME.has(command) ? quoteName(args) : args, options);
      reportLimit(result.response);
      return result;
    } catch (error) {
      reportLimit((error as { response?: Untagged }).response);
      throw error;
    }
  };

  const run = internals.run.bind(client);
  internals.run = async (command, ...args) => {
    const nothing = IN_EMPTY_FOLDER[command];
    if (nothing && isEmpty(client)) return nothing();
    const [extensions] = args;
    if (command !== 'ENABLE' || !Array.isArray(extensions) || client.capabilities.has('UTF8=ONLY')) {
      return run(command, ...args);
    }
    return run(
      command,
      extensions.filter((name) => name !== 'UTF8=ACCEPT'),
    );
  };

  internals.untaggedVanished = async ({ attributes = [] }, mailbox = client.mailbox || undefined) => {
    const set = attributes.at(-1);
    if (!mailbox || !set || Array.isArray(set) || typeof set.value !== 'string') return;
    const { value } = set;
    const event: VanishedEvent = {
      path: mailbox.path,
      earlier: Array.isArray(attributes[0]),
      // read where they are used
      get ranges() {
        return uidRanges(value);
      },
    };
    // those that are reported as they go are no longer in the folder (RFC 7162 section 3.2.10.2)
    if (!event.earlier) mailbox.exists = Math.max(0, mailbox.exists - countOf(event.ranges));
    (client as NodeJS.EventEmitter).emit('vanished', event);
  };
}

const countOf = (ranges: UidRange[]) => ranges.reduce((sum, { from, to }) => sum + to - from + 1, 0);

/** What imapflow returns for these commands in a folder without messages. */
const IN_EMPTY_FOLDER: Record<string, () => unknown> = { FETCH: () => ({ count: 0, list: [] }), SEARCH: () => [] };

/** Whether the selected folder has no messages, as far as the server has said. */
export function isEmpty({ mailbox }: ImapFlow): boolean {
  return mailbox !== false && mailbox?.exists === 0;
}

/** Commands whose first argument is the name of a folder, which imapflow quotes only where it must. */
const BEGIN_WITH_NAME = new Set(['SELECT', 'EXAMINE', 'STATUS']);

/** Some servers misread a name such as `~` or `NIL` unless it is quoted. */
function quoteName([name, ...others]: unknown[]): unknown[] {
  const { type, value } = (name ?? {}) as { type?: string; value?: unknown };
  return type === 'ATOM' && typeof value === 'string' ? [{ type: 'STRING', value }, ...others] : [name, ...others];
}

/** The ranges of a sequence set; anything but numbers is omitted. */
export function uidRanges(set: string): UidRange[] {
  const ranges: UidRange[] = [];
  for (const [, first, last = first] of set.matchAll(RANGES)) {
    const [one, other] = [Number(first), Number(last)];
    ranges.push({ from: Math.min(one, other), to: Math.max(one, other) });
  }
  return ranges;
}

const RANGES = /(?<![^,])(\d{1,10})(?::(\d{1,10}))?(?![^,])/g;
