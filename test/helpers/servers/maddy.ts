import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { run } from '../product/child.ts';
import { attempt, CACHE, type OtherServer, startOther } from './other-servers.ts';

const VERSION = '0.8.1';

/** maddy is built with these modules in place of those it names: only the module that is built can say so. */
const REPLACED = [
  'github.com/emersion/go-imap=github.com/foxcpp/go-imap@v1.0.0-beta.1.0.20220623182312-df940c324887',
  'github.com/emersion/go-smtp=github.com/foxcpp/go-smtp@v1.21.4-0.20250124171104-c8519ae4fb23',
  'github.com/libdns/gandi=github.com/foxcpp/libdns-gandi@v1.0.4-0.20240127130558-4782f9d5ce3e',
];

/**
 * maddy, in Go: MOVE and IDLE, but neither UIDPLUS, LIST-STATUS nor CONDSTORE; `.` between folders. Answers how to start it,
 * or undefined where it cannot be had (no Go, no C compiler, no network at the first time).
 */
export async function maddy(): Promise<(() => Promise<OtherServer>) | undefined> {
  const dir = join(CACHE, `maddy-${VERSION}`);
  const program = join(dir, 'maddy');
  if (!existsSync(program) && !(await build(dir))) return undefined;
  return () =>
    startOther('maddy', async ({ user, password, imapPort }, home) => {
      const config = join(home, 'maddy.conf');
      await writeFile(config, configOf(home, imapPort));
      const maddyctl = (...args: string[]) => run(program, ['--config', config, ...args]);
      await maddyctl('creds', 'create', '--password', password, user);
      await maddyctl('imap-acct', 'create', user);
      return [program, '--config', config, 'run'];
    });
}

/** Takes about three minutes. */
async function build(dir: string): Promise<boolean> {
  const source = 'github.com/foxcpp/maddy/cmd/maddy';
  await mkdir(dir, { recursive: true });
  const steps = [
    ['mod', 'init', 'maddy-of-the-tests'],
    ['mod', 'edit', ...REPLACED.map((one) => `-replace=${one}`)],
    ['get', '-tool', `${source}@v${VERSION}`],
    ['build', '-o', 'maddy', source],
  ];
  if (existsSync(join(dir, 'go.mod'))) steps.splice(0, 1);
  for (const step of steps) if (!(await attempt('go', ['-C', dir, ...step]))) return false;
  return true;
}

function configOf(home: string, port: number): string {
  return `state_dir ${home}/state
runtime_dir ${home}/run
hostname example.test
tls off
auth.pass_table local_authdb {
    table sql_table {
        driver sqlite3
        dsn credentials.db
        table_name passwords
    }
}
storage.imapsql local_mailboxes {
    driver sqlite3
    dsn imapsql.db
}
imap tcp://127.0.0.1:${port} {
    auth &local_authdb
    storage &local_mailboxes
    insecure_auth yes
}
`;
}
