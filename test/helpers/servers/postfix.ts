import { chown, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { run, spawnServer, stopChild, waitForPort } from '../product/child.ts';
import { freePort } from './free-port.ts';
import type { TestCertificate } from './test-ca.ts';

/** How a Postfix is reached; plain data. */
export interface PostfixInfo {
  /** submission: login needed, STARTTLS offered */
  submissionPort: number;
  /** submission with TLS from the first byte */
  smtpsPort: number;
  /** submission without SMTPUTF8: login needed, STARTTLS offered */
  asciiPort: number;
  /** where mail from outside arrives: no login */
  smtpPort: number;
  /** bytes; a larger message is refused with 552 */
  messageSizeLimit: number;
}

export interface RunningPostfix extends PostfixInfo {
  /** the process whose tree is the server */
  pid: number;
  stop(): Promise<void>;
}

export interface PostfixOptions {
  certificate: TestCertificate;
  /** Dovecot's SASL port, and where mail for *.test goes */
  authPort: number;
  lmtpPort: number;
  messageSizeLimit?: number;
}

const QUEUES = [
  ...['active', 'bounce', 'corrupt', 'defer', 'deferred', 'flush', 'hold', 'incoming', 'saved', 'trace'],
  ...['maildrop', 'public', 'private'],
];

/**
 * Starts a Postfix with a separate configuration in `dir`, on free loopback ports; needs root.
 * Mail for domains under `.test` and for mail.example.com is handed to Dovecot, mail for anywhere else comes back as a bounce: nothing
 * ever leaves the machine. A local part that begins with `refused` is refused with 550, with `tempfail` with 451.
 */
export async function startPostfix(dir: string, options: PostfixOptions): Promise<RunningPostfix> {
  const info: PostfixInfo = {
    submissionPort: await freePort(),
    smtpsPort: await freePort(),
    asciiPort: await freePort(),
    smtpPort: await freePort(),
    messageSizeLimit: options.messageSizeLimit ?? 10_240_000,
  };
  const etc = join(dir, 'etc');
  const { stdout } = await run('id', ['-u', 'postfix']);
  const uid = Number(stdout.trim());
  await mkdir(etc, { recursive: true });
  await mkdir(join(dir, 'queue', 'pid'), { recursive: true });
  await mkdir(join(dir, 'data'), { recursive: true });
  await chown(join(dir, 'data'), uid, 0);
  for (const name of QUEUES) {
    await mkdir(join(dir, 'queue', name), { recursive: true });
    await chown(join(dir, 'queue', name), uid, 0);
  }
  await writeFile(join(etc, 'main.cf'), mainConfig(dir, info, options));
  await writeFile(join(etc, 'master.cf'), masterConfig(info));
  const child = spawnServer('/usr/lib/postfix/sbin/master', ['-c', etc, '-d']);
  await waitForPort(info.submissionPort, child, `Postfix (see ${dir}/mail.log)`);
  return { ...info, pid: child.pid ?? 0, stop: () => stopChild(child) };
}

function mainConfig(dir: string, info: PostfixInfo, options: PostfixOptions): string {
  return `
compatibility_level = 3.6
queue_directory = ${dir}/queue
data_directory = ${dir}/data
maillog_file = ${dir}/mail.log
maillog_file_prefixes = ${dir}
syslog_name = test-postfix
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
myhostname = mail.example.test
mydomain = example.test
mynetworks = 127.0.0.0/8
mydestination =
local_recipient_maps =
local_transport = error:5.1.1 no local mail here
alias_maps =
alias_database =
virtual_mailbox_domains = regexp:{ {/^(.+\\.)?test$$/ OK} {/^mail\\.example\\.com$$/ OK} }
virtual_mailbox_maps =
virtual_transport = lmtp:inet:127.0.0.1:${options.lmtpPort}
default_transport = error:5.1.2 this server sends nothing to other domains
relay_transport = error:5.1.2 this server relays nothing
lmtp_host_lookup = native
smtp_host_lookup = native
smtpd_peername_lookup = no
disable_dns_lookups = yes
message_size_limit = ${info.messageSizeLimit}
mailbox_size_limit = 0
virtual_mailbox_limit = 0
in_flow_delay = 0
queue_run_delay = 5s
minimal_backoff_time = 5s
maximal_backoff_time = 10s
maximal_queue_lifetime = 5m
bounce_queue_lifetime = 5m
recipient_delimiter =
smtpd_sasl_type = dovecot
smtpd_sasl_path = inet:127.0.0.1:${options.authPort}
smtpd_sasl_security_options = noanonymous
smtpd_tls_security_level = may
smtpd_tls_cert_file = ${options.certificate.cert}
smtpd_tls_key_file = ${options.certificate.key}
smtpd_tls_auth_only = no
smtpd_client_connection_count_limit = 0
smtpd_client_connection_rate_limit = 0
smtpd_client_auth_rate_limit = 0
smtpd_error_sleep_time = 0
smtpd_recipient_restrictions =
  check_recipient_access regexp:{ {/^refused/ 550 5.7.1 recipient refused} {/^tempfail/ 451 4.7.1 try again later} }
smtpd_relay_restrictions = permit_mynetworks, permit_sasl_authenticated, reject
`;
}

function masterConfig(info: PostfixInfo): string {
  const submission = ['smtpd_sasl_auth_enable=yes', 'smtpd_relay_restrictions=permit_sasl_authenticated,reject'];
  const inet = (port: number, options: string[]) =>
    `127.0.0.1:${port} inet n - n - - smtpd${options.map((option) => ` -o ${option}`).join('')}`;
  return `${[
    inet(info.smtpPort, []),
    inet(info.submissionPort, submission),
    inet(info.asciiPort, [...submission, 'smtputf8_enable=no']),
    inet(info.smtpsPort, [...submission, 'smtpd_tls_wrappermode=yes']),
    'pickup    unix n - n 60 1 pickup',
    'cleanup   unix n - n - 0 cleanup',
    'qmgr      unix n - n 300 1 qmgr',
    'tlsmgr    unix - - n 1000? 1 tlsmgr',
    'rewrite   unix - - n - - trivial-rewrite',
    'bounce    unix - - n - 0 bounce',
    'defer     unix - - n - 0 bounce',
    'trace     unix - - n - 0 bounce',
    'verify    unix - - n - 1 verify',
    'flush     unix n - n 1000? 0 flush',
    'proxymap  unix - - n - - proxymap',
    'smtp      unix - - n - - smtp',
    'lmtp      unix - - n - - lmtp',
    'error     unix - - n - - error',
    'retry     unix - - n - - error',
    'discard   unix - - n - - discard',
    'anvil     unix - - n - 1 anvil',
    'scache    unix - - n - 1 scache',
    'postlog   unix-dgram n - n - 1 postlogd',
  ].join('\n')}\n`;
}
