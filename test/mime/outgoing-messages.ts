import type { SendInput } from '../../src/contract/sending.ts';
import { type OutgoingMessage, messageFromInput, type RepliedTo } from '../../src/mime/write/outgoing-message.ts';

/** The context of every message in these tests. */
export const GIVEN = {
  from: { email: 'owner@example.test', display_name: 'The Owner' },
  messageId: '<message@example.test>',
  date: new Date('2026-03-04T05:06:07Z'),
};

/** The message of a SendInput; to one reader when it names no recipient. */
export function outgoingMessage(input: SendInput, reply: RepliedTo | null = null): OutgoingMessage {
  return messageFromInput({ to: [{ email: 'reader@example.test' }], ...input }, { ...GIVEN, reply });
}

/** An attachment of a SendInput. */
export function file(content: string | Buffer, rest: { filename?: string; content_type?: string; cid?: string } = {}) {
  return { content: Buffer.from(content).toString('base64'), ...rest };
}

/** The longest line of a message, in octets. */
export function longestLine(source: Buffer): number {
  return Math.max(
    ...source
      .toString('latin1')
      .split('\r\n')
      .map((line) => line.length),
  );
}
