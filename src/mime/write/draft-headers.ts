import type { Header } from '../../contract/email.ts';
import { isSettableHeader, type OutgoingMessage } from './outgoing-message.ts';

/*
 * Headers for the program that wrote a draft, or for servers that transferred a message; not for the reader of the mail. Those that
 * the caller gave are sent, whatever their names: a header of the draft says which. A program that writes the draft again omits it,
 * as it omits the headers of others, and what it adds itself is not in it.
 */

/** Settings of a mail program for its own draft: Thunderbird, Apple Mail, Outlook, KMail, Evolution. */
const OF_DRAFTS =
  /^(x-mozilla-.*|x-identity-key|x-account-key|fcc|x-fcc|x-unsent|x-apple-.*|x-uniform-type-identifier|x-universally-unique-identifier|x-kmail-.*|x-evolution-.*)$/i;

/** Added by servers in transit, or by a mail store. */
const OF_CARRIAGE =
  /^(received|x-received|return-path|delivered-to|x-original-to|envelope-to|dkim-signature|arc-.*|authentication-results|received-spf|domainkey-signature|status|x-status|x-uid|x-uidl|x-keywords|resent-bcc)$/i;

/** Headers that OutgoingMessage has fields for, or that compose writes. */
const OF_CONTENT =
  /^(from|to|cc|bcc|reply-to|subject|date|message-id|in-reply-to|references|mime-version|content-.*)$/i;

/** Names the headers of a draft that the caller gave under a name of those above. */
const GIVEN = 'X-Draft-Given-Headers';

/** Which headers of a draft must not be sent. */
export interface PrivateHeaders {
  /** whether a header is private to the mail program that wrote the draft */
  isOfDraft(name: string): boolean;
  /** whether a header was added in transit, or by a mail store */
  isTrace(name: string): boolean;
}

/** Which headers of a draft with these headers must not be sent. */
export function privateHeadersIn(headers: readonly Header[]): PrivateHeaders {
  const names = headers.filter(({ name }) => isMark(name)).flatMap(({ value }) => value.toLowerCase().split(/[,\s]+/));
  const given = new Set(names.filter(isSettableHeader));
  const isGiven = (name: string): boolean => given.has(name.toLowerCase());
  return {
    isOfDraft: (name) => isMark(name) || (OF_DRAFTS.test(name) && !isGiven(name)),
    isTrace: (name) => OF_CARRIAGE.test(name) && !isGiven(name),
  };
}

/** The message as a draft: the headers that the caller gives now are sent, whatever their names. */
export function withGivenHeaders(message: OutgoingMessage, given: readonly Header[] = []): OutgoingMessage {
  const names = given.map(({ name }) => name).filter((name) => OF_DRAFTS.test(name) || OF_CARRIAGE.test(name));
  if (names.length === 0) return message;
  return { ...message, headers: [...message.headers, { name: GIVEN, value: [...new Set(names)].join(', ') }] };
}

const isMark = (name: string): boolean => name.toLowerCase() === GIVEN.toLowerCase();

/** Whether OutgoingMessage has a field for this header, or compose writes it. */
export function isContentHeader(name: string): boolean {
  return OF_CONTENT.test(name);
}
