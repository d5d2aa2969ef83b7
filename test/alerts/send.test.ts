import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { type AlertDeps, sendAlerts } from '../../src/alerts/send.ts';
import { createLogger } from '../../src/runtime/logger.ts';
import { SubmitError, type Submitter } from '../../src/smtp/submit.ts';
import { storeAccount } from '../helpers/product/stored-account.ts';
import { type TestDatabase, testDatabase } from '../helpers/servers/postgres.ts';

let test: TestDatabase;
beforeAll(async () => {
  test = await testDatabase();
});
afterAll(() => test?.drop());

const lines: Record<string, unknown>[] = [];
beforeEach(async () => {
  for (const table of ['accounts', 'alerts', 'alert_messages']) await test.database.pool.query(`delete from ${table}`);
  lines.length = 0;
  const id = await storeAccount(test.database, { name: 'Ada' });
  await test.database.pool.query(`update accounts set status = 'disconnected' where id = $1`, [id]);
});

/** Reports the mailbox by mail to two addresses. */
function send(submit: Submitter['submit']): Promise<void> {
  const smtp = { host: '127.0.0.1', port: 587, user: 'ops', encryption: 'NONE', password: 'p' } as never;
  const settings = { email: { to: ['a@example.com', 'b@example.com'], from: 'ops@example.com', smtp }, backlog: 0 };
  const logger = createLogger('info', 'test', { write: (line: string) => void lines.push(JSON.parse(line)) });
  const deps: AlertDeps = {
    ...{ db: test.database.db, logger, settings, installation: 'https://mail.example.com' },
    poster: { post: () => Promise.reject(new Error('no URL is set')) },
    submitter: { submit },
    times: { settleMs: 0, gapMs: 0 },
  };
  return sendAlerts(deps);
}
const message = async () =>
  (await test.database.pool.query(`select sent_at is not null as sent, error from alert_messages`)).rows;

describe('an alert by mail', () => {
  it('is sent once when one of two recipients is refused, and the log says so', async () => {
    await send(() => Promise.resolve({ rejected: ['b@example.com'] }));
    expect(await message()).toEqual([{ sent: true, error: null }]);
    expect(lines).toMatchObject([
      { level: 'warn', msg: 'alert refused for some recipients', refused: 1, recipients: 2 },
      { level: 'info', msg: 'alert sent', channel: 'email', attempts: 1 },
    ]);
    expect(JSON.stringify(lines)).not.toContain('example.com');
  });

  it('that is not accepted is stored and logged with the reason of the server, without addresses', async () => {
    const detail = 'the SMTP server refused every recipient: 550 5.1.1 <a@example.com>: mailbox full';
    await send(() => Promise.reject(new SubmitError('not_sent', 'provider_rejected', detail)));
    expect(await message()).toEqual([{ sent: false, error: detail }]);
    expect(lines).toMatchObject([
      {
        msg: 'alert not sent; a later attempt follows',
        reason: 'the SMTP server refused every recipient: 550 5.1.1 …: mailbox full',
      },
    ]);
  });
});
