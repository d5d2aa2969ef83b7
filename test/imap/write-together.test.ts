import { expect, test } from '@jest/globals';
import { moveMessages } from '../../src/imap/move.ts';
import { createSessionPool } from '../../src/imap/pool.ts';
import { openFolder } from '../../src/imap/select.ts';
import { startDovecotProfile } from '../helpers/servers/dovecot-profiles.ts';
import { imapSettings, LOOPBACK } from '../helpers/product/mail-session.ts';
import { addUser } from '../helpers/product/mail-user.ts';
import { openMailbox } from '../helpers/product/mailbox.ts';

test('without UIDPLUS sessions move mail out of a folder one at a time, and messages that others marked stay', async () => {
  const dovecot = await startDovecotProfile('stripped');
  try {
    const user = await addUser({ dovecot });
    const box = await openMailbox(user);
    const uids: number[] = [];
    for (let index = 0; index < 25; index++) uids.push(await box.append('INBOX', { subject: `mail ${index}` }));
    await box.createFolder('Filed');
    const marked = uids.pop() as number;
    await box.addFlags('INBOX', marked, ['\\Deleted']);
    const pool = createSessionPool({ outbound: LOOPBACK });
    await Promise.all(
      uids.map((uid) =>
        pool.use('acc_1', imapSettings(user), async (session) => {
          await openFolder(session, 'INBOX');
          await moveMessages(session, [uid], 'Filed');
        }),
      ),
    );
    await pool.close();
    await box.client.noop();
    expect(await box.uids('INBOX')).toEqual([marked]);
    expect(await box.uids('Filed')).toHaveLength(24);
    await box.close();
  } finally {
    await dovecot.stop();
  }
}, 60_000);
