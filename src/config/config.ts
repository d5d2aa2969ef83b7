import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { DAY, HOUR, MINUTE, SECOND } from '../duration.ts';
import {
  apiKey,
  cidrs,
  ConfigError,
  duration,
  durations,
  type Env,
  integer,
  key,
  oneOf,
  pem,
  quote,
  required,
  text,
  url,
} from './setting.ts';

export { ConfigError, type Env } from './setting.ts';

/** TLS of the connection to Temporal; an empty object means the system's certificate authorities. */
export interface TemporalTls {
  serverName?: string;
  ca?: Buffer;
  /** client certificate and key, PEM; both or neither */
  cert?: Buffer;
  key?: Buffer;
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

export const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

const MiB = 1024 * 1024;
const DEFAULT_METRICS_PORT = 9464;
const DEFAULT_RETRY_SCHEDULE = '5s,30s,5m,30m,2h,5h,10h,14h,20h,24h';

/**
 * Reads the settings. An empty value counts as absent.
 * @throws ConfigError for the first setting that is missing or wrong
 */
export function loadConfig(env: Env): Config {
  const dataDir = resolve(text(env, 'DATA_DIR') ?? '.data');
  const host = text(env, 'HOST') ?? '127.0.0.1';
  const port = integer(env, 'PORT', 3000, [0, 65_535]);
  const bootstrapApiKey = apiKey(env, 'BOOTSTRAP_API_KEY');
  const s3Endpoint = endpoint(env, 'S3_ENDPOINT');
  const otlpEndpoint = endpoint(env, 'OTEL_EXPORTER_OTLP_ENDPOINT');
  return {
    host,
    port,
    publicUrl: publicUrl(env, host, port),
    trustProxy: trustProxy(env, 'TRUST_PROXY'),
    databaseUrl: databaseUrl(env),
    temporal: temporal(env),
    dataDir,
    storageUrl: storageUrl(env, dataDir),
    storageEncryption: oneOf(env, 'STORAGE_ENCRYPTION', { true: 'on', false: 'off' } as const, 'off') === 'on',
    ...(s3Endpoint === undefined ? {} : { s3Endpoint }),
    ...loadEncryptionKeys(env),
    ...(bootstrapApiKey === undefined ? {} : { bootstrapApiKey }),
    outboundAllow: cidrs(env, 'OUTBOUND_ALLOW'),
    allowInsecureMail: oneOf(env, 'ALLOW_INSECURE_MAIL', INSECURE_MAIL, 'never'),
    webhook: {
      retryScheduleMs: durations(env, 'WEBHOOK_RETRY_SCHEDULE', DEFAULT_RETRY_SCHEDULE, [1, 30 * DAY]),
      timeoutMs: duration(env, 'WEBHOOK_TIMEOUT', 30 * SECOND, [SECOND / 10, 5 * MINUTE]),
      autoDisable: oneOf(env, 'WEBHOOK_AUTO_DISABLE', { true: 'on', false: 'off' } as const, 'on') === 'on',
    },
    sync: {
      heartbeatTimeoutMs: duration(env, 'SYNC_HEARTBEAT_TIMEOUT', 2 * MINUTE, [2 * SECOND, 10 * MINUTE]),
      pollMs: duration(env, 'SYNC_POLL_INTERVAL', 25 * SECOND, [SECOND / 10, HOUR]),
      loginCheckMs: duration(env, 'SYNC_LOGIN_CHECK', 6 * HOUR, [0, DAY]),
      loginsPerMinute: integer(env, 'SYNC_LOGINS_PER_MINUTE', 240, [1, 100_000]),
      maxWatchers: integer(env, 'SYNC_MAX_MAILBOXES', 2000, [1, 100_000]),
    },
    limits: {
      wrongKeysPerMinute: integer(env, 'MAX_WRONG_KEYS_PER_MINUTE', 60, [0, 1_000_000]),
      requestsPerMinute: {
        key: integer(env, 'MAX_REQUESTS_PER_MINUTE_PER_KEY', 0, [0, 10_000_000]),
        address: integer(env, 'MAX_REQUESTS_PER_MINUTE_PER_ADDRESS', 0, [0, 10_000_000]),
      },
      bodyBytes: integer(env, 'MAX_BODY_BYTES', 40 * MiB, [1024, 1024 * MiB]),
      send: {
        attachmentBytes: integer(env, 'MAX_ATTACHMENT_BYTES', 25 * MiB, [0, 1024 * MiB]),
        attachments: integer(env, 'MAX_ATTACHMENTS', 100, [0, 10_000]),
        recipients: integer(env, 'MAX_RECIPIENTS', 500, [1, 100_000]),
        subject: integer(env, 'MAX_SUBJECT_LENGTH', 998, [1, 100_000]),
      },
    },
    servers: integer(env, 'SERVERS', 1, [1, MAX_PROCESSES]),
    auditRetentionMs: duration(env, 'AUDIT_RETENTION', 90 * DAY, [DAY, 3650 * DAY]),
    ...temporalCodec(env),
    brand: brand(env),
    temporalUiUrl: endpoint(env, 'TEMPORAL_UI_URL') ?? endpoint(env, 'TEMPORAL_UI_ORIGIN') ?? null,
    ...(otlpEndpoint === undefined ? {} : { otlpEndpoint }),
    workerMetrics: workerMetrics(env),
    logLevel: oneOf(env, 'LOG_LEVEL', Object.fromEntries(LOG_LEVELS.map((level) => [level, level])), 'info'),
  };
}

/** The value of ENCRYPTION_KEY_PREVIOUS when that key is lost. */
const LOST = 'lost';

/** The part of `loadConfig` that reads the keys. */
export function loadEncryptionKeys(
  env: Env,
): Pick<Config, 'encryptionKey' | 'encryptionKeyPrevious' | 'encryptionKeyIsLost'> {
  const encryptionKey = key(env, 'ENCRYPTION_KEY');
  const previous = text(env, 'ENCRYPTION_KEY_PREVIOUS');
  if (previous === undefined) return { encryptionKey };
  if (previous === LOST) return { encryptionKey, encryptionKeyIsLost: true };
  return { encryptionKey, encryptionKeyPrevious: key(env, 'ENCRYPTION_KEY_PREVIOUS') };
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
}

const MAX_PROCESSES = 64;

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
  const absent = (name: string) => text(env, name) === undefined;
  const filled = Object.entries(FILLED_IN).filter(([name]) => absent(name));
  const {
    dataDir,
    host,
    port,
    servers,
    workerMetrics: metrics,
  } = loadConfig({ ...env, ...Object.fromEntries(filled) });
  if (port === 0) throw new ConfigError('PORT', 'must be a port from 1 to 65535 when started with npm start');
  return {
    dataDir,
    host,
    port,
    temporalUiPort: integer(env, 'TEMPORAL_UI_PORT', 8233, [1, 65_535]),
    workerMetricsPort: metrics?.port ?? null,
    workers: integer(env, 'WORKERS', 1, [1, MAX_PROCESSES]),
    servers,
    embedPostgres: absent('DATABASE_URL'),
    embedTemporal: absent('TEMPORAL_ADDRESS'),
    apiKeyIsOurs: absent('BOOTSTRAP_API_KEY'),
    encryptionKeyIsOurs: absent('ENCRYPTION_KEY'),
  };
}

const INSECURE_MAIL = {
  false: 'never',
  never: 'never',
  loopback: 'loopback',
  true: 'always',
  always: 'always',
} as const;

function databaseUrl(env: Env): string {
  const value = required(env, 'DATABASE_URL', 'a Postgres URL (npm start runs its own database)');
  url('DATABASE_URL', value, ['postgres:', 'postgresql:']);
  return value;
}

function publicUrl(env: Env, host: string, port: number): string {
  const value = text(env, 'PUBLIC_URL');
  if (value !== undefined) {
    const parsed = url('PUBLIC_URL', value, ['http:', 'https:']);
    if (parsed.search !== '' || parsed.hash !== '') throw new ConfigError('PUBLIC_URL', 'must have no query');
    return value.replace(/\/+$/, '');
  }
  const reachable = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host;
  return `http://${reachable.includes(':') ? `[${reachable}]` : reachable}:${port}`;
}

/** Port 0: none. */
function workerMetrics(env: Env): Config['workerMetrics'] {
  const port = integer(env, 'WORKER_METRICS_PORT', DEFAULT_METRICS_PORT, [0, 65_535]);
  return port === 0 ? null : { host: text(env, 'WORKER_METRICS_HOST') ?? '127.0.0.1', port };
}

/** A single number is a count of proxies; a list is of networks. */
function trustProxy(env: Env, name: string): Config['trustProxy'] {
  const value = text(env, name)?.toLowerCase() ?? 'false';
  if (value === 'false' || value === 'true') return value === 'true';
  if (/^\d+$/.test(value)) return integer(env, name, 0, [1, 100]);
  if (/^[\d.:a-f/, ]+$/.test(value) && value.includes('/')) return cidrs(env, name);
  throw new ConfigError(
    name,
    `must be true, false, a number of proxies or a list such as 10.0.0.0/8,fd00::/8, not ${quote(value)}`,
  );
}

function storageUrl(env: Env, dataDir: string): string {
  const value = text(env, 'STORAGE_URL');
  if (value === undefined) return pathToFileURL(resolve(dataDir, 'storage')).href;
  // `file:./mail` is relative to the working directory, like DATA_DIR
  if (/^file:(?!\/)/.test(value)) return pathToFileURL(resolve(value.slice('file:'.length))).href;
  const parsed = url('STORAGE_URL', value, ['file:', 's3:']);
  if (parsed.protocol === 's3:' && parsed.hostname === '') {
    throw new ConfigError('STORAGE_URL', 'must name a bucket: s3://bucket/prefix');
  }
  if (parsed.protocol === 'file:' && parsed.hostname !== '') {
    throw new ConfigError('STORAGE_URL', 'must be an absolute path: file:///path');
  }
  return value;
}

function endpoint(env: Env, name: string): string | undefined {
  const value = text(env, name);
  return value === undefined ? undefined : url(name, value, ['http:', 'https:']).href.replace(/\/+$/, '');
}

function temporal(env: Env): Config['temporal'] {
  const address = required(env, 'TEMPORAL_ADDRESS', 'host:port of Temporal (npm start runs its own server)');
  if (!/^[^\s/]+:\d{1,5}$/.test(address)) {
    throw new ConfigError('TEMPORAL_ADDRESS', `must be host:port, not ${quote(address)}`);
  }
  const namespace = text(env, 'TEMPORAL_NAMESPACE') ?? 'default';
  const apiKeyValue = text(env, 'TEMPORAL_API_KEY');
  const tls = temporalTls(env, apiKeyValue !== undefined);
  return {
    address,
    namespace,
    ...(apiKeyValue === undefined ? {} : { apiKey: apiKeyValue }),
    ...(tls === undefined ? {} : { tls }),
  };
}

/** Both settings are set, or neither. */
function temporalCodec(env: Env): Pick<Config, 'temporalCodec'> {
  const token = apiKey(env, 'TEMPORAL_CODEC_TOKEN');
  const value = text(env, 'TEMPORAL_UI_ORIGIN');
  if (token === undefined && value === undefined) return {};
  if (token === undefined) throw new ConfigError('TEMPORAL_CODEC_TOKEN', 'is not set, which TEMPORAL_UI_ORIGIN needs');
  if (value === undefined) throw new ConfigError('TEMPORAL_UI_ORIGIN', 'is not set, which TEMPORAL_CODEC_TOKEN needs');
  const { origin, href } = url('TEMPORAL_UI_ORIGIN', value, ['http:', 'https:']);
  if (href !== `${origin}/`)
    throw new ConfigError('TEMPORAL_UI_ORIGIN', 'must have no path: https://temporal.example.com');
  return { temporalCodec: { origin, token } };
}

function brand(env: Env): Config['brand'] {
  const color = text(env, 'BRAND_COLOR') ?? null;
  if (color !== null && !/^#[0-9a-f]{6}$/i.test(color)) {
    throw new ConfigError('BRAND_COLOR', `must be a color such as #1a56db, not ${quote(color)}`);
  }
  const logo = text(env, 'BRAND_LOGO_URL');
  return {
    name: text(env, 'BRAND_NAME') ?? 'Email API',
    color,
    logoUrl: logo === undefined ? null : url('BRAND_LOGO_URL', logo, ['https:']).href,
  };
}

/** The variables of Temporal's own tools; an API key or any TLS file turns TLS on. */
function temporalTls(env: Env, hasApiKey: boolean): TemporalTls | undefined {
  const serverName = text(env, 'TEMPORAL_TLS_SERVER_NAME');
  const ca = pem(env, 'TEMPORAL_TLS_SERVER_CA_CERT_PATH');
  const cert = pem(env, 'TEMPORAL_TLS_CLIENT_CERT_PATH');
  const clientKey = pem(env, 'TEMPORAL_TLS_CLIENT_KEY_PATH');
  if ((cert === undefined) !== (clientKey === undefined)) {
    const missing = cert === undefined ? 'TEMPORAL_TLS_CLIENT_CERT_PATH' : 'TEMPORAL_TLS_CLIENT_KEY_PATH';
    throw new ConfigError(missing, 'is not set: a client certificate and its key go together');
  }
  const wanted = hasApiKey || [serverName, ca, cert].some((given) => given !== undefined);
  const on = oneOf(env, 'TEMPORAL_TLS', { true: 'on', false: 'off' } as const, wanted ? 'on' : 'off');
  if (on === 'off') return undefined;
  return {
    ...(serverName === undefined ? {} : { serverName }),
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(clientKey === undefined ? {} : { key: clientKey }),
  };
}
