import type { MailLogin } from '../../test/helpers/product/mail-user.ts';
import { openMailbox } from '../../test/helpers/product/mailbox.ts';

/**
 * An IMAP client that idles on INBOX and fetches new mail: the lower bound of the latency of any program. Records when it
 * first saw each Message-ID, ms since 1970.
 */
export async function idleClient(user: MailLogin, seen: Map<string, number>): Promise<{ stop(): Promise<void> }> {
  const { client, close } = await openMailbox(user);
  let known = (await client.mailboxOpen('INBOX')).exists;
  let last = Promise.resolve();
  client.on('exists', ({ count }: { count: number }) => {
    last = last.then(async () => {
      if (count <= known) return;
      const range = `${known + 1}:*`;
      known = count;
      for await (const { envelope } of client.fetch(range, { envelope: true, source: true })) {
        if (envelope?.messageId) seen.set(envelope.messageId, Date.now());
      }
    });
  });
  let isStopped = false;
  // a command ends IDLE; imapflow restarts it only after seconds
  const idling = (async () => {
    while (!isStopped) {
      await client.idle();
      await last;
    }
  })();
  return {
    stop: async () => {
      isStopped = true;
      await client.noop();
      await idling;
      await close();
    },
  };
}
