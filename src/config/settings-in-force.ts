import { DAY } from '../duration.ts';
import type { Config } from './config.ts';
import { readerOf, type SettingName } from './settings/index.ts';

/** One setting as shown; of a secret, only whether it is set. */
export interface ShownSetting {
  name: string;
  value: string;
  is_default: boolean;
  is_secret: boolean;
}

type Env = Readonly<Record<string, string | undefined>>;

const seconds = (ms: number) => (ms % 1000 === 0 ? `${ms / 1000}s` : `${ms}ms`);
const days = (ms: number) => (ms % DAY === 0 ? `${ms / DAY}d` : seconds(ms));
const isSet = (value: Buffer | undefined) => (value === undefined ? 'not set' : 'set');
const orNone = (value: string | null | undefined) => value ?? 'none';

/** A URL without what may be secret in it: its user, password and query. */
function shownUrl(value: string | null | undefined): string {
  if (value === null || value === undefined) return 'none';
  const url = new URL(value);
  if (url.username === '' && url.password === '' && url.search === '' && url.hash === '') return value;
  return Object.assign(url, { username: '', password: '', search: '', hash: '' }).href;
}

/** Of these it is shown whether they are set. Their URLs hold passwords. */
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
] as const satisfies SettingName[];

type Shown = Exclude<SettingName, (typeof SECRET)[number]>;

/** The effective values of settings that are no secrets. */
const SHOWN: Readonly<Record<Shown, (config: Config, read: ReturnType<typeof readerOf>) => string>> = {
  PUBLIC_URL: ({ publicUrl }) => shownUrl(publicUrl),
  HOST: ({ host }) => host,
  PORT: ({ port }) => String(port),
  TRUST_PROXY: ({ trustProxy }) => String(trustProxy),
  DATA_DIR: ({ dataDir }) => dataDir,
  S3_ENDPOINT: ({ s3Endpoint }) => shownUrl(s3Endpoint),
  STORAGE_ENCRYPTION: ({ storageEncryption }) => String(storageEncryption),
  AUDIT_RETENTION: ({ auditRetentionMs }) => days(auditRetentionMs),
  TEMPORAL_ADDRESS: ({ temporal }) => temporal.address,
  TEMPORAL_NAMESPACE: ({ temporal }) => temporal.namespace,
  TEMPORAL_TLS: ({ temporal }) => String(temporal.tls !== undefined),
  TEMPORAL_TLS_SERVER_NAME: (_config, read) => orNone(read('TEMPORAL_TLS_SERVER_NAME')),
  TEMPORAL_TLS_SERVER_CA_CERT_PATH: (_config, read) => isSet(read('TEMPORAL_TLS_SERVER_CA_CERT_PATH')),
  TEMPORAL_TLS_CLIENT_CERT_PATH: (_config, read) => isSet(read('TEMPORAL_TLS_CLIENT_CERT_PATH')),
  TEMPORAL_TLS_CLIENT_KEY_PATH: (_config, read) => isSet(read('TEMPORAL_TLS_CLIENT_KEY_PATH')),
  TEMPORAL_UI_URL: ({ temporalUiUrl }) => shownUrl(temporalUiUrl),
  TEMPORAL_UI_ORIGIN: ({ temporalCodec }) => orNone(temporalCodec?.origin),
  TEMPORAL_UI_PORT: (_config, read) => String(read('TEMPORAL_UI_PORT')),
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
  MAX_REQUESTS_PER_MINUTE_PER_KEY: ({ limits }) => String(limits.requestsPerMinute.key),
  MAX_REQUESTS_PER_MINUTE_PER_ADDRESS: ({ limits }) => String(limits.requestsPerMinute.address),
  MAX_WRONG_KEYS_PER_MINUTE: ({ limits }) => String(limits.wrongKeysPerMinute),
  MAX_BODY_BYTES: ({ limits }) => String(limits.bodyBytes),
  MAX_ATTACHMENT_BYTES: ({ limits }) => String(limits.send.attachmentBytes),
  MAX_UPLOADED_BYTES: ({ limits }) => String(limits.uploadedBytes),
  MAX_ATTACHMENTS: ({ limits }) => String(limits.send.attachments),
  MAX_RECIPIENTS: ({ limits }) => String(limits.send.recipients),
  MAX_SUBJECT_LENGTH: ({ limits }) => String(limits.send.subject),
  BRAND_NAME: ({ brand }) => brand.name,
  BRAND_COLOR: ({ brand }) => orNone(brand.color),
  BRAND_LOGO_URL: ({ brand }) => shownUrl(brand.logoUrl),
  OIDC_ISSUER: ({ signIn }) => shownUrl(signIn?.client.issuer),
  OIDC_CLIENT_ID: ({ signIn }) => orNone(signIn?.client.clientId),
  OIDC_SCOPE: (_config, read) => read('OIDC_SCOPE'),
  OIDC_GROUPS_CLAIM: (_config, read) => read('OIDC_GROUPS_CLAIM'),
  OIDC_ADMIN_GROUPS: ({ signIn }) => signIn?.groups.full.join(',') || 'none',
  OIDC_OPERATOR_GROUPS: ({ signIn }) => signIn?.groups.operate.join(',') || 'none',
  OIDC_VIEWER_GROUPS: ({ signIn }) => signIn?.groups.read.join(',') || 'none',
  SERVERS: ({ servers }) => String(servers),
  WORKERS: (_config, read) => String(read('WORKERS')),
  WORKER_METRICS_HOST: (_config, read) => read('WORKER_METRICS_HOST'),
  WORKER_METRICS_PORT: (_config, read) => String(read('WORKER_METRICS_PORT')),
  LOG_LEVEL: ({ logLevel }) => logLevel,
  OTEL_EXPORTER_OTLP_ENDPOINT: ({ otlpEndpoint }) => shownUrl(otlpEndpoint),
};

/** The settings that a process runs with, without secrets: every documented one, once. */
export function settingsInForce(env: Env, config: Config): ShownSetting[] {
  const isGiven = (name: string) => (env[name] ?? '').trim() !== '';
  const read = readerOf(env);
  return [
    ...Object.entries(SHOWN).map(([name, valueOf]) => ({
      name,
      value: valueOf(config, read),
      is_default: !isGiven(name),
      is_secret: false,
    })),
    ...SECRET.map((name) => ({
      name,
      value: isGiven(name) ? 'set' : 'not set',
      is_default: !isGiven(name),
      is_secret: true,
    })),
  ];
}
