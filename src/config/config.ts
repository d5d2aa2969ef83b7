import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { ConfigError, type Env, valueOf } from './setting.ts';
import type { AlertSmtp } from './settings/alerts.ts';
import { readerOf } from './settings/index.ts';
import type { LogLevel } from './settings/operation.ts';

export { ConfigError, type Env } from './setting.ts';

/** TLS of the connection to Temporal; an empty object means the system's certificate authorities. */
export interface TemporalTls {
  serverName?: string;
  ca?: Buffer;
  /** client certificate and key, PEM; both or neither */
  cert?: Buffer;
  key?: Buffer;
}

/** Sign-in of people by OpenID Connect. */
export interface SignInConfig {
  client: { issuer: string; clientId: string; clientSecret?: string; scope: string; groupsClaim: string };
  groups: { full: string[]; operate: string[]; read: string[] };
}

/** The settings of every process. All durations are milliseconds, all sizes bytes. */
export interface Config {
  host: string;
  port: number;
  /** URL of the API from outside, without a trailing slash */
  publicUrl: string;
  /** which X-Forwarded-For is trusted: none, any, that of the last so many proxies, or that of these networks */
  trustProxy: boolean | number | string[];
  databaseUrl: string;
  temporal: { address: string; namespace: string; apiKey?: string; tls?: TemporalTls };
  /** absolute path */
  dataDir: string;
  /** `file:///…` or `s3://bucket/prefix` */
  storageUrl: string;
  /** new objects are encrypted under the key of their account */
  storageEncryption: boolean;
  /** S3 server other than Amazon's, addressed in path style */
  s3Endpoint?: string;
  /** 32 bytes */
  encryptionKey: Buffer;
  encryptionKeyPrevious?: Buffer;
  /** the previous key is lost: what it sealed is given up */
  encryptionKeyIsLost?: true;
  bootstrapApiKey?: string;
  /** private networks (CIDRs) that connections to addresses named by callers may reach */
  outboundAllow: string[];
  /** mail connections without TLS; `loopback`: to this machine only */
  allowInsecureMail: 'never' | 'loopback' | 'always';
  /** delays before the second, third, … attempt; their count is the number of retries */
  webhook: {
    retryScheduleMs: number[];
    timeoutMs: number;
    /** endpoints that fail for days are disabled */
    autoDisable: boolean;
  };
  /** messages to operators */
  alerts: {
    url?: { url: string; secret: string };
    email?: { to: string[]; smtp: AlertSmtp };
    /** waiting deliveries that are reported; 0: none are */
    backlog: number;
  };
  sync: {
    /** a watching activity without a heartbeat for so long is replaced by another worker's */
    heartbeatTimeoutMs: number;
    /** interval of checks of folders without notifications */
    pollMs: number;
    /** interval of logins on a fresh connection that check an idle mailbox's password; 0 = never */
    loginCheckMs: number;
    /** logins at one provider, over all workers */
    loginsPerMinute: number;
    /** maximum number of mailboxes that one worker process watches */
    maxWatchers: number;
  };
  limits: {
    bodyBytes: number;
    /** bytes of the unexpired uploads of one key */
    uploadedBytes: number;
    /** calls with wrong keys from one address; 0: no limit */
    wrongKeysPerMinute: number;
    /** calls with one key, and from one address; 0: no limit */
    requestsPerMinute: { key: number; address: number };
    /** for one email: decoded bytes of its attachments, their number, its recipients, characters of its subject */
    send: { attachmentBytes: number; attachments: number; recipients: number; subject: number };
  };
  /** API processes that share the port */
  servers: number;
  /** how long the audit log is stored */
  auditRetentionMs: number;
  /** decodes histories for the Temporal UI of this origin, if requests bear the token; absent: not */
  temporalCodec?: { origin: string; token: string };
  /** the identity provider of people, and the groups whose members get each permission; absent: they sign in with keys */
  signIn?: SignInConfig;
  /** the brand on the connect page */
  brand: { name: string; color: string | null; logoUrl: string | null };
  /** URL of the Temporal UI; null: unknown */
  temporalUiUrl: string | null;
  /** URL of an OpenTelemetry collector; absent: no traces */
  otlpEndpoint?: string;
  /** where a worker serves its metrics; null: nowhere */
  workerMetrics: { host: string; port: number } | null;
  logLevel: LogLevel;
}

type Read = ReturnType<typeof readerOf>;

/**
 * Reads the settings. An empty value counts as absent.
 * @throws ConfigError for the first setting that is missing or wrong
 */
export function loadConfig(env: Env): Config {
  const read = readerOf(env);
  const dataDir = resolve(read('DATA_DIR'));
  const [host, port] = [read('HOST'), read('PORT')];
  const bootstrapApiKey = read('BOOTSTRAP_API_KEY');
  const s3Endpoint = read('S3_ENDPOINT');
  const otlpEndpoint = read('OTEL_EXPORTER_OTLP_ENDPOINT');
  return {
    host,
    port,
    publicUrl: read('PUBLIC_URL') ?? urlOf(host, port),
    trustProxy: read('TRUST_PROXY'),
    databaseUrl: read('DATABASE_URL'),
    temporal: temporal(read),
    dataDir,
    storageUrl: read('STORAGE_URL') ?? pathToFileURL(resolve(dataDir, 'storage')).href,
    storageEncryption: read('STORAGE_ENCRYPTION'),
    ...(s3Endpoint === undefined ? {} : { s3Endpoint }),
    ...loadEncryptionKeys(env),
    ...(bootstrapApiKey === undefined ? {} : { bootstrapApiKey }),
    outboundAllow: read('OUTBOUND_ALLOW'),
    allowInsecureMail: read('ALLOW_INSECURE_MAIL'),
    webhook: {
      retryScheduleMs: read('WEBHOOK_RETRY_SCHEDULE'),
      timeoutMs: read('WEBHOOK_TIMEOUT'),
      autoDisable: read('WEBHOOK_AUTO_DISABLE'),
    },
    alerts: alerts(read),
    sync: {
      heartbeatTimeoutMs: read('SYNC_HEARTBEAT_TIMEOUT'),
      pollMs: read('SYNC_POLL_INTERVAL'),
      loginCheckMs: read('SYNC_LOGIN_CHECK'),
      loginsPerMinute: read('SYNC_LOGINS_PER_MINUTE'),
      maxWatchers: read('SYNC_MAX_MAILBOXES'),
    },
    limits: limits(read),
    servers: read('SERVERS'),
    auditRetentionMs: read('AUDIT_RETENTION'),
    ...temporalCodec(read),
    ...signIn(read),
    brand: { name: read('BRAND_NAME'), color: read('BRAND_COLOR'), logoUrl: read('BRAND_LOGO_URL') },
    temporalUiUrl: read('TEMPORAL_UI_URL') ?? read('TEMPORAL_UI_ORIGIN') ?? null,
    ...(otlpEndpoint === undefined ? {} : { otlpEndpoint }),
    workerMetrics: workerMetrics(read),
    logLevel: read('LOG_LEVEL'),
  };
}

function limits(read: Read): Config['limits'] {
  return {
    wrongKeysPerMinute: read('MAX_WRONG_KEYS_PER_MINUTE'),
    requestsPerMinute: {
      key: read('MAX_REQUESTS_PER_MINUTE_PER_KEY'),
      address: read('MAX_REQUESTS_PER_MINUTE_PER_ADDRESS'),
    },
    bodyBytes: read('MAX_BODY_BYTES'),
    uploadedBytes: read('MAX_UPLOADED_BYTES'),
    send: {
      attachmentBytes: read('MAX_ATTACHMENT_BYTES'),
      attachments: read('MAX_ATTACHMENTS'),
      recipients: read('MAX_RECIPIENTS'),
      subject: read('MAX_SUBJECT_LENGTH'),
    },
  };
}

/** The part of `loadConfig` that reads the keys. */
export function loadEncryptionKeys(
  env: Env,
): Pick<Config, 'encryptionKey' | 'encryptionKeyPrevious' | 'encryptionKeyIsLost'> {
  const read = readerOf(env);
  const encryptionKey = read('ENCRYPTION_KEY');
  const previous = read('ENCRYPTION_KEY_PREVIOUS');
  if (previous === undefined) return { encryptionKey };
  return previous === 'lost'
    ? { encryptionKey, encryptionKeyIsLost: true }
    : { encryptionKey, encryptionKeyPrevious: previous };
}

/** Settings of `npm start` alone: the parts that it starts itself, and where. */
export interface StartConfig {
  /** absolute path */
  dataDir: string;
  host: string;
  port: number;
  /** the first port to try for the UI of the embedded Temporal */
  temporalUiPort: number;
  /** the first port to try for the metrics of the worker; null: none are served */
  workerMetricsPort: number | null;
  /** worker processes, and API processes that share the port */
  workers: number;
  servers: number;
  embedPostgres: boolean;
  embedTemporal: boolean;
  apiKeyIsOurs: boolean;
  encryptionKeyIsOurs: boolean;
  storageUrl: string;
  storageIsOurs: boolean;
}

/** Placeholders for the settings that the start provides. */
const FILLED_IN = {
  DATABASE_URL: 'postgresql://127.0.0.1/placeholder',
  TEMPORAL_ADDRESS: '127.0.0.1:7233',
  ENCRYPTION_KEY: Buffer.alloc(32).toString('base64'),
};

/**
 * Reads and checks every setting before anything is started. Settings that the start itself provides count as valid.
 * @throws ConfigError for the first setting that is missing or wrong
 */
export function loadStartConfig(env: Env): StartConfig {
  const read = readerOf(env);
  const absent = (name: string) => valueOf(env, name) === undefined;
  const filled = Object.entries(FILLED_IN).filter(([name]) => absent(name));
  const {
    dataDir,
    host,
    port,
    servers,
    storageUrl,
    workerMetrics: metrics,
  } = loadConfig({ ...env, ...Object.fromEntries(filled) });
  if (port === 0) throw new ConfigError('PORT', 'must be a port from 1 to 65535 when started with npm start');
  return {
    dataDir,
    host,
    port,
    temporalUiPort: read('TEMPORAL_UI_PORT'),
    workerMetricsPort: metrics?.port ?? null,
    workers: read('WORKERS'),
    servers,
    embedPostgres: absent('DATABASE_URL'),
    embedTemporal: absent('TEMPORAL_ADDRESS'),
    apiKeyIsOurs: absent('BOOTSTRAP_API_KEY'),
    encryptionKeyIsOurs: absent('ENCRYPTION_KEY'),
    storageUrl,
    storageIsOurs: absent('STORAGE_URL'),
  };
}

/** The address at which this machine reaches the API. */
function urlOf(host: string, port: number): string {
  const reachable = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host;
  return `http://${reachable.includes(':') ? `[${reachable}]` : reachable}:${port}`;
}

/** Port 0: none. */
function workerMetrics(read: Read): Config['workerMetrics'] {
  const port = read('WORKER_METRICS_PORT');
  return port === 0 ? null : { host: read('WORKER_METRICS_HOST'), port };
}

function temporal(read: Read): Config['temporal'] {
  const apiKey = read('TEMPORAL_API_KEY');
  const tls = temporalTls(read, apiKey !== undefined);
  return {
    address: read('TEMPORAL_ADDRESS'),
    namespace: read('TEMPORAL_NAMESPACE'),
    ...(apiKey === undefined ? {} : { apiKey }),
    ...(tls === undefined ? {} : { tls }),
  };
}

/** The URL needs a secret, the addresses need a server, and the other way round. */
function alerts(read: Read): Config['alerts'] {
  const [url, secret, to, smtp] = [
    read('ALERT_URL'),
    read('ALERT_SECRET'),
    read('ALERT_EMAIL'),
    read('ALERT_SMTP_URL'),
  ];
  const needs = (name: string, by: string) => new ConfigError(name, `is not set, which ${by} needs`);
  if (url !== undefined && secret === undefined) throw needs('ALERT_SECRET', 'ALERT_URL');
  if (to.length > 0 && smtp === undefined) throw needs('ALERT_SMTP_URL', 'ALERT_EMAIL');
  return {
    ...(url !== undefined && secret !== undefined ? { url: { url, secret } } : {}),
    ...(to.length > 0 && smtp !== undefined ? { email: { to, smtp } } : {}),
    backlog: read('ALERT_BACKLOG'),
  };
}

/** Both settings are set, or neither. */
function temporalCodec(read: Read): Pick<Config, 'temporalCodec'> {
  const [token, origin] = [read('TEMPORAL_CODEC_TOKEN'), read('TEMPORAL_UI_ORIGIN')];
  if (token === undefined && origin === undefined) return {};
  if (token === undefined) throw new ConfigError('TEMPORAL_CODEC_TOKEN', 'is not set, which TEMPORAL_UI_ORIGIN needs');
  if (origin === undefined) throw new ConfigError('TEMPORAL_UI_ORIGIN', 'is not set, which TEMPORAL_CODEC_TOKEN needs');
  return { temporalCodec: { origin, token } };
}

/** Without an issuer: none. */
function signIn(read: Read): Pick<Config, 'signIn'> {
  const [issuer, clientId, clientSecret] = [read('OIDC_ISSUER'), read('OIDC_CLIENT_ID'), read('OIDC_CLIENT_SECRET')];
  const groups = {
    full: read('OIDC_ADMIN_GROUPS'),
    operate: read('OIDC_OPERATOR_GROUPS'),
    read: read('OIDC_VIEWER_GROUPS'),
  };
  if (issuer === undefined && clientId === undefined) return {};
  if (issuer === undefined) throw new ConfigError('OIDC_ISSUER', 'is not set, which OIDC_CLIENT_ID needs');
  if (clientId === undefined) throw new ConfigError('OIDC_CLIENT_ID', 'is not set, which OIDC_ISSUER needs');
  if (Object.values(groups).every((names) => names.length === 0)) {
    throw new ConfigError(
      'OIDC_ADMIN_GROUPS',
      'is not set, nor are those of operators and viewers: no person could sign in',
    );
  }
  const secret = clientSecret === undefined ? {} : { clientSecret };
  const client = { issuer, clientId, ...secret, scope: read('OIDC_SCOPE'), groupsClaim: read('OIDC_GROUPS_CLAIM') };
  return { signIn: { client, groups } };
}

/** The variables of Temporal's own tools; an API key or any TLS file turns TLS on. */
function temporalTls(read: Read, hasApiKey: boolean): TemporalTls | undefined {
  const serverName = read('TEMPORAL_TLS_SERVER_NAME');
  const ca = read('TEMPORAL_TLS_SERVER_CA_CERT_PATH');
  const cert = read('TEMPORAL_TLS_CLIENT_CERT_PATH');
  const clientKey = read('TEMPORAL_TLS_CLIENT_KEY_PATH');
  if ((cert === undefined) !== (clientKey === undefined)) {
    const missing = cert === undefined ? 'TEMPORAL_TLS_CLIENT_CERT_PATH' : 'TEMPORAL_TLS_CLIENT_KEY_PATH';
    throw new ConfigError(missing, 'is not set: a client certificate and its key go together');
  }
  const isWanted = hasApiKey || [serverName, ca, cert].some((given) => given !== undefined);
  if (!(read('TEMPORAL_TLS') ?? isWanted)) return undefined;
  return {
    ...(serverName === undefined ? {} : { serverName }),
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(clientKey === undefined ? {} : { key: clientKey }),
  };
}
