import { useQueryClient } from '@tanstack/preact-query';
import type { ComponentChildren } from 'preact';
import type { Session } from '../api/client.ts';

/** Key of the query for the session; it has the last one while the user is to sign in again. */
export const SESSION = ['session'];

/** What a session may do; the API decides, the dashboard hides the rest. */
export interface May {
  /** change the mailboxes that it sees, and their mail */
  change: boolean;
  /** see what belongs to the installation: endpoints, keys, the audit log, settings */
  seeAll: boolean;
  /** change that, and connect mailboxes */
  manage: boolean;
  /** say who may do what: keys */
  administer: boolean;
}

export function mayOf({ permissions, accounts }: Pick<Session, 'permissions' | 'accounts'>): May {
  const change = permissions !== 'read';
  const seeAll = accounts === null;
  const manage = change && seeAll;
  return { change, seeAll, manage, administer: manage && permissions === 'full' };
}

const NOTHING: May = { change: false, seeAll: false, manage: false, administer: false };

/** What the session of this browser may do. */
export function useMay(): May {
  const session = useQueryClient().getQueryData<Session | null>(SESSION);
  return session ? mayOf(session) : NOTHING;
}

/** Shows its content to sessions that may do `to`. */
export function Allowed({ to, children }: { to: keyof May; children: ComponentChildren }) {
  return useMay()[to] ? <>{children}</> : null;
}
