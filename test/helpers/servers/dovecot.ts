import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { spawnServer, stopChild, waitForPort } from '../product/child.ts';
import { freePort } from './free-port.ts';
import type { TestCertificate } from './test-ca.ts';

/** How a Dovecot is reached; plain data that can be passed to another process. */
export interface DovecotInfo {
  /** IMAP without TLS, STARTTLS offered */
  imapPort: number;
  /** IMAP with TLS from the first byte */
  imapsPort: number;
  lmtpPort: number;
  /** where other servers check logins (Dovecot's own SASL protocol) */
  authPort: number;
  /** one passwd-file per user */
  usersDir: string;
  mailDir: string;
  configFile: string;
}

export interface RunningDovecot extends DovecotInfo {
  /** the process whose tree is the server */
  pid: number;
  stop(): Promise<void>;
}

export interface DovecotOptions {
  certificate: TestCertificate;
  /** the announced capabilities, default all */
  capabilities?: string;
  /** personal namespace, default no prefix and `/` */
  prefix?: string;
  separator?: string;
  /** URL that tells whether an access token is valid (RFC 7662): offers XOAUTH2 and OAUTHBEARER as well */
  introspectionUrl?: string;
  /** no special-use folders, and no SPECIAL-USE flags */
  bareFolders?: boolean;
}

/** The capabilities of a server of the year 2000: no extension that sync could use. */
export const OLD_CAPABILITIES = 'IMAP4rev1';

/**
 * Starts a Dovecot with a separate configuration in `dir`, on free loopback ports.
 * Storage is sdbox without fsync; users are files in `usersDir`, reread at each login.
 */
export async function startDovecot(dir: string, options: DovecotOptions): Promise<RunningDovecot> {
  const info: DovecotInfo = {
    imapPort: await freePort(),
    imapsPort: await freePort(),
    lmtpPort: await freePort(),
    authPort: await freePort(),
    usersDir: join(dir, 'users'),
    mailDir: join(dir, 'mail'),
    configFile: join(dir, 'dovecot.conf'),
  };
  await mkdir(info.usersDir, { recursive: true });
  // its processes switch to other users, which need access
  await chmod(dir, 0o755);
  await mkdir(info.mailDir, { recursive: true, mode: 0o777 });
  await writeFile(info.configFile, config(dir, info, options));
  const { introspectionUrl } = options;
  if (introspectionUrl) await writeFile(join(dir, 'oauth2.conf'), oauth2Config(introspectionUrl));
  const child = spawnServer('dovecot', ['-F', '-c', info.configFile]);
  await waitForPort(info.imapPort, child, `Dovecot (see ${dir}/dovecot.log)`);
  return { ...info, pid: child.pid ?? 0, stop: () => stopChild(child) };
}

function config(dir: string, info: DovecotInfo, options: DovecotOptions): string {
  const { certificate, capabilities, prefix = '', separator = '/', bareFolders = false, introspectionUrl } = options;
  const special = (name: string, flag: string) =>
    bareFolders ? '' : `  mailbox ${name} {\n    auto = subscribe\n    special_use = ${flag}\n  }\n`;
  return `
protocols = imap lmtp
listen = 127.0.0.1
base_dir = ${dir}/run
state_dir = ${dir}/state
log_path = ${dir}/dovecot.log
auth_verbose = no
default_vsz_limit = 0
mail_location = sdbox:~/mail
mail_fsync = never
first_valid_uid = 1
last_valid_uid = 0
mail_max_userip_connections = 0
disable_plaintext_auth = no
auth_mechanisms = plain login${introspectionUrl ? ' xoauth2 oauthbearer' : ''}
auth_failure_delay = 0
ssl = yes
ssl_cert = <${certificate.cert}
ssl_key = <${certificate.key}
hostname = mail.example.test
postmaster_address = postmaster@example.test
recipient_delimiter =
lmtp_save_to_detail_mailbox = no
lda_mailbox_autocreate = yes
${capabilities ? `imap_capability = ${capabilities}` : ''}

${introspectionUrl ? `passdb {\n  driver = oauth2\n  mechanisms = xoauth2 oauthbearer\n  args = ${dir}/oauth2.conf\n}` : ''}
passdb {
  driver = passwd-file
  ${introspectionUrl ? 'mechanisms = plain login' : ''}
  args = ${info.usersDir}/%Lu
}
userdb {
  driver = passwd-file
  args = ${info.usersDir}/%Lu
}

namespace inbox {
  inbox = yes
  prefix = ${prefix}
  separator = ${separator}
${special('Drafts', '\\Drafts')}${special('Sent', '\\Sent')}${special('Trash', '\\Trash')}${special('Junk', '\\Junk')}${special('Archive', '\\Archive')}}

protocol imap {
  imap_idle_notify_interval = 2 mins
}
mailbox_list_index = yes

service imap-login {
  inet_listener imap {
    port = ${info.imapPort}
  }
  inet_listener imaps {
    port = ${info.imapsPort}
    ssl = yes
  }
  # one process for all logins: many of them come together
  service_count = 0
  process_min_avail = 1
  client_limit = 10000
  chroot =
}
service imap {
  process_limit = 10000
}
service lmtp {
  inet_listener lmtp {
    port = ${info.lmtpPort}
  }
  process_min_avail = 1
}
service auth {
  inet_listener sasl {
    port = ${info.authPort}
  }
  client_limit = 20000
}
service anvil {
  client_limit = 20000
  # no waiting after refused logins
  unix_listener anvil-auth-penalty {
    mode = 0
  }
}
service stats {
  client_limit = 20000
}
`;
}

function oauth2Config(introspectionUrl: string): string {
  return `
introspection_mode = post
introspection_url = ${introspectionUrl}
username_attribute = username
active_attribute = active
active_value = true
`;
}
