import type { AddressObject, EmailAddress, Headers } from 'mailparser';
import type { Attendee } from '../../contract/email.ts';
import { storable } from './storable.ts';

const MAX_ADDRESS = 320;

export const NOBODY: Attendee = { identifier: '', display_name: '', identifier_type: 'EMAIL_ADDRESS' };

/** The mailboxes of the headers of that lower-case name; groups are flattened, what holds no address is left out. */
export function readAddresses(headers: Headers, key: string): Attendee[] {
  return attendees(headers, key).filter((attendee) => attendee.identifier !== '');
}

/** The author: the first mailbox of From; with an empty identifier, but the name, when there is no address. */
export function readFrom(headers: Headers): Attendee {
  const all = attendees(headers, 'from');
  return all.find((attendee) => attendee.identifier !== '') ?? all[0] ?? NOBODY;
}

function attendees(headers: Headers, key: string): Attendee[] {
  const fields = [headers.get(key) ?? []].flat() as AddressObject[];
  const entries = fields.flatMap(({ value }) => value).flatMap((entry) => entry.group ?? [entry]);
  return entries.map(toAttendee);
}

function toAttendee({ name: rawName, address = '' }: EmailAddress): Attendee {
  const name = rawName.replace(/\s+/g, ' ').trim();
  if (address.trim() !== '') return attendee(address.trim(), name === address ? '' : name);
  // A user of the machine itself: `From: root`.
  return name !== '' && !/\s/.test(name) ? attendee(name, '') : attendee('', name);
}

function attendee(address: string, name: string): Attendee {
  return {
    identifier: storable(address.length > MAX_ADDRESS ? '' : address),
    display_name: storable(name),
    identifier_type: 'EMAIL_ADDRESS',
  };
}
