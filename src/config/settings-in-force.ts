import type { Config } from './config.ts';

/** One setting as shown; of a secret, only whether it is set. */
export interface ShownSetting {
  name: string;
  value: string;
  is_default: boolean;
  is_secret: boolean;
}

type Env = Readonly<Record<string, string | undefined>>;

const seconds = (ms: number) => (ms % 1000 === 0 ? `${ms / 1000}s` : `${ms}ms`);

/** The effective values of settings that are no secrets. */
const SHOWN: Readonly<Record<string, (config: Config) => string>> = {
  PUBLIC_URL: ({ publicUrl }) => publicUrl,
  HOST: ({ host }) => host,
  PORT: ({ port }) => String(port),
  TRUST_PROXY: ({ trustProxy }) => String(trustProxy),
  DATA_DIR: ({ dataDir }) => dataDir,
  TEMPORAL_ADDRESS: ({ temporal }) => temporal.address,
  TEMPORAL_NAMESPACE: ({ temporal }) => temporal.namespace,
  OUTBOUND_ALLOW: ({ outboundAllow }) => outboundAllow.join(',') || 'none',
  ALLOW_INSECURE_MAIL: ({ allowInsecureMail }) => allowInsecureMail,
  WEBHOOK_RETRY_SCHEDULE: ({ webhook }) => webhook.retryScheduleMs.map(seconds).join(','),
  WEBHOOK_TIMEOUT: ({ webhook }) => seconds(webhook.timeoutMs),
  WEBHOOK_AUTO_DISABLE: ({ webhook }) => String(webhook.autoDisable),
  ALERT_EMAIL: ({ alerts }) => alerts.email?.to.join(',') ?? 'none',
  ALERT_BACKLOG: ({ alerts }) => String(alerts.backlog),
  SYNC_HEARTBEAT_TIMEOUT: ({ sync }) => seconds(sync.heartbeatTimeoutMs),
  SYNC_POLL_INTERVAL: ({ sync }) => seconds(sync.pollMs),
  SYNC_LOGIN_CHECK: ({ sync }) => seconds(sync.loginCheckMs),
  SYNC_LOGINS_PER_MINUTE: ({ sync }) => String(sync.loginsPerMinute),
  SYNC_MAX_MAILBOXES: ({ sync }) => String(sync.maxWatchers),
  MAX_WRONG_KEYS_PER_MINUTE: ({ limits }) => String(limits.wrongKeysPerMinute),
  MAX_BODY_BYTES: ({ limits }) => String(limits.bodyBytes),
  MAX_ATTACHMENT_BYTES: ({ limits }) => String(limits.send.attachmentBytes),
  MAX_UPLOADED_BYTES: ({ limits }) => String(limits.uploadedBytes),
  MAX_ATTACHMENTS: ({ limits }) => String(limits.send.attachments),
  MAX_RECIPIENTS: ({ limits }) => String(limits.send.recipients),
  MAX_SUBJECT_LENGTH: ({ limits }) => String(limits.send.subject),
  BRAND_NAME: ({ brand }) => brand.name,
  BRAND_COLOR: ({ brand }) => brand.color ?? 'none',
  BRAND_LOGO_URL: ({ brand }) => brand.logoUrl ?? 'none',
  OIDC_ISSUER: ({ signIn }) => signIn?.client.issuer ?? 'none',
  OIDC_CLIENT_ID: ({ signIn }) => signIn?.client.clientId ?? 'none',
  OIDC_ADMIN_GROUPS: ({ signIn }) => signIn?.groups.full.join(',') || 'none',
  OIDC_OPERATOR_GROUPS: ({ signIn }) => signIn?.groups.operate.join(',') || 'none',
  OIDC_VIEWER_GROUPS: ({ signIn }) => signIn?.groups.read.join(',') || 'none',
  SERVERS: ({ servers }) => String(servers),
  LOG_LEVEL: ({ logLevel }) => logLevel,
};

/** URLs of these may hold passwords. */
const SECRET = [
  'DATABASE_URL',
  'STORAGE_URL',
  'ENCRYPTION_KEY',
  'ENCRYPTION_KEY_PREVIOUS',
  'BOOTSTRAP_API_KEY',
  'TEMPORAL_API_KEY',
  'TEMPORAL_CODEC_TOKEN',
  'ALERT_URL',
  'ALERT_SECRET',
  'ALERT_SMTP_URL',
  'OIDC_CLIENT_SECRET',
];

/** The settings that a process runs with, without secrets. */
export function settingsInForce(env: Env, config: Config): ShownSetting[] {
  const isSet = (name: string) => (env[name] ?? '').trim() !== '';
  return [
    ...Object.entries(SHOWN).map(([name, valueOf]) => ({
      name,
      value: valueOf(config),
      is_default: !isSet(name),
      is_secret: false,
    })),
    ...SECRET.map((name) => ({
      name,
      value: isSet(name) ? 'set' : 'not set',
      is_default: !isSet(name),
      is_secret: true,
    })),
  ];
}
