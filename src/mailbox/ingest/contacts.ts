import type { Attendee } from '../../contract/email.ts';
import type { Person } from '../store/contacts.ts';

const BOUNCE_SENDER = /^(mailer-daemon|postmaster)(@|$)/;

/** Who wrote and received a mail. */
export interface People {
  from: Attendee;
  to: Attendee[];
  cc: Attendee[];
  bcc: Attendee[];
}

/** Lower-cased address, without white space. */
export const normalAddress = (address: string): string => address.trim().toLowerCase();

/**
 * Who wrote or received a mail, less the owner and bounce senders (CONTRACT "Contacts"); each once, by the first name
 * given. Of drafts and bounces nobody counts, which is for the caller to know.
 */
export function contactsOf(ownAddresses: string[], { from, to, cc, bcc }: People): Person[] {
  const byAddress = new Map<string, string | null>();
  for (const person of [from, ...to, ...cc, ...bcc]) {
    const address = normalAddress(person.identifier);
    if (!address.includes('@') || address.length > 320) continue;
    if (ownAddresses.includes(address) || BOUNCE_SENDER.test(address)) continue;
    byAddress.set(address, byAddress.get(address) ?? (person.display_name.trim() || null));
  }
  return [...byAddress].map(([address, displayName]) => ({ address, displayName }));
}
