import { decodePath, normalizePath } from 'imapflow/lib/tools.js';
import { MailError } from '../mail-error.ts';
import { type Argument, atom, command, folderArgument, textOf, type Untagged } from './command.ts';
import type { ImapSession } from './session.ts';

/** Subscriptions (RFC 3501 6.3.6) say which folders mail programs show. A server that refuses them does no harm. */

export function subscribe(session: ImapSession, path: string): Promise<void> {
  return leniently(() => command(session, 'SUBSCRIBE', [folderArgument(session, path)]));
}

export function unsubscribe(session: ImapSession, path: string): Promise<void> {
  return leniently(() => command(session, 'UNSUBSCRIBE', [folderArgument(session, path)]));
}

/** Runs a rename, and takes the subscriptions of the folder and of those in it along: servers keep the old names. */
export async function moveSubscriptions(
  session: ImapSession,
  from: string,
  to: string,
  rename: () => Promise<void>,
): Promise<void> {
  const [before, after] = [from, to].map((path) => normalizePath(session.client, path)) as [string, string];
  const delimiter = session.client.namespace?.delimiter ?? '/';
  const subscribed: string[] = [];
  await leniently(async () => {
    for (const path of [before, `${before}${delimiter}*`]) subscribed.push(...(await listSubscribed(session, path)));
  });
  const ours = new Set(subscribed.filter((path) => path === before || path.startsWith(before + delimiter)));
  await rename();
  for (const path of ours) {
    await unsubscribe(session, path);
    await subscribe(session, after + path.slice(before.length));
  }
}

/** LSUB, which IMAP4rev2 has no more; there it is an option of LIST. */
async function listSubscribed(session: ImapSession, pattern: string): Promise<string[]> {
  const paths: string[] = [];
  const hear = ({ attributes = [] }: Untagged) => {
    const flags = (Array.isArray(attributes[0]) ? attributes[0] : []).map(textOf);
    const raw = textOf(attributes[2]);
    // LSUB gives parents of subscribed folders as \Noselect
    if (raw !== undefined && !flags.includes('\\Noselect')) paths.push(decodePath(session.client, raw));
  };
  const names: Argument[] = [{ type: 'STRING', value: '' }, folderArgument(session, pattern)];
  const extended = session.has('LIST-EXTENDED') || session.has('IMAP4rev2');
  if (extended) await command(session, 'LIST', [[atom('SUBSCRIBED')], ...names], { untagged: { LIST: hear } });
  else await command(session, 'LSUB', names, { untagged: { LSUB: hear } });
  return paths;
}

async function leniently(work: () => Promise<unknown>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof MailError) || !error.refused) throw error;
  }
}
