// `npm run mailbox`: a mailbox on this machine to try the product with (Dovecot and Postfix; Debian, as root).
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ensureInstalled, fail } from './install.mjs';

await ensureInstalled();
const { register } = await import('tsx/esm/api');
register();
const { startMailServers } = await import('../test/helpers/servers/mail-servers.ts');
const { addUser } = await import('../test/helpers/product/mail-user.ts');
const { intentFor } = await import('../test/helpers/product/api.ts');

const dir = await mkdtemp(join(tmpdir(), 'mailbox-'));
const removed = () => rm(dir, { recursive: true, force: true, maxRetries: 5 });
const { servers, env, stop } = await startMailServers(dir, console.log).catch(async (error) => {
  await removed();
  fail(error.message);
});
Object.assign(process.env, env);
const anna = await addUser({ user: 'anna@example.test' });
console.log(`
A mailbox: ${anna.user}. Connect it with this body of POST /auth/intent:

  ${JSON.stringify(intentFor(anna))}

Send it a mail:

  curl smtp://127.0.0.1:${servers.postfix.smtpPort} --mail-from ada@elsewhere.test --mail-rcpt ${anna.user} \\
    -H 'From: Ada <ada@elsewhere.test>' -H 'To: ${anna.user}' -H 'Subject: Hello' -F '=Good morning' -F 'file=@README.md;encoder=base64'

Ctrl-C ends it, and the mailbox is gone.`);

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.on(signal, async () => {
    await stop();
    await removed();
    process.exit(0);
  });
}
// the servers alone do not keep this process running
setInterval(() => {}, 60_000);
