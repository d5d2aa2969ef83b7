import { describe, expect, it } from '@jest/globals';
import { ConfigError, type Env, loadConfig, loadStartConfig } from '../../src/config/config.ts';

const KEY = Buffer.alloc(32, 7).toString('base64');
const NEEDED: Env = {
  DATABASE_URL: 'postgres://localhost/mail',
  TEMPORAL_ADDRESS: 'temporal:7233',
  ENCRYPTION_KEY: KEY,
};

describe('settings', () => {
  it('say that the previous encryption key is lost', () => {
    const config = loadConfig({ ...NEEDED, ENCRYPTION_KEY_PREVIOUS: 'lost' });
    expect([config.encryptionKeyIsLost, config.encryptionKeyPrevious]).toEqual([true, undefined]);
  });

  it('have the documented defaults', () => {
    expect(loadConfig({ ...NEEDED, DATA_DIR: '/data' })).toEqual({
      host: '127.0.0.1',
      port: 3000,
      publicUrl: 'http://127.0.0.1:3000',
      brand: { name: 'Email API', color: null, logoUrl: null },
      temporalUiUrl: null,
      trustProxy: false,
      databaseUrl: 'postgres://localhost/mail',
      temporal: { address: 'temporal:7233', namespace: 'default' },
      dataDir: '/data',
      storageUrl: 'file:///data/storage',
      storageEncryption: false,
      encryptionKey: Buffer.alloc(32, 7),
      outboundAllow: [],
      allowInsecureMail: 'never',
      webhook: {
        retryScheduleMs: [5e3, 30e3, 300e3, 1800e3, 7200e3, 18_000e3, 36_000e3, 50_400e3, 72_000e3, 86_400e3],
        timeoutMs: 30_000,
        autoDisable: true,
      },
      alerts: { backlog: 10_000 },
      sync: {
        heartbeatTimeoutMs: 120_000,
        pollMs: 25_000,
        loginCheckMs: 21_600_000,
        loginsPerMinute: 1200,
        maxWatchers: 2000,
      },
      limits: {
        bodyBytes: 40 * 1024 * 1024,
        uploadedBytes: 1024 * 1024 * 1024,
        wrongKeysPerMinute: 60,
        requestsPerMinute: { key: 0, address: 0 },
        send: { attachmentBytes: 25 * 1024 * 1024, attachments: 100, recipients: 500, subject: 998 },
      },
      servers: 1,
      auditRetentionMs: 7_776_000_000,
      workerMetrics: { host: '127.0.0.1', port: 9464 },
      logLevel: 'info',
    });
  });

  it.each<[Env, object]>([
    [
      { PORT: '80', HOST: '::' },
      { port: 80, host: '::', publicUrl: 'http://[::1]:80' },
    ],
    [
      { PORT: '  ', HOST: '' },
      { port: 3000, host: '127.0.0.1' },
    ],
    [{ PUBLIC_URL: 'https://mail.example.com/x/' }, { publicUrl: 'https://mail.example.com/x' }],
    [{ TRUST_PROXY: 'True' }, { trustProxy: true }],
    [{ TRUST_PROXY: '2' }, { trustProxy: 2 }],
    [{ TRUST_PROXY: '10.0.0.0/8, fd00::/8' }, { trustProxy: ['10.0.0.0/8', 'fd00::/8'] }],
    [
      { TEMPORAL_UI_ORIGIN: 'https://ui.example.com/', TEMPORAL_CODEC_TOKEN: 'a-token-of-twenty-characters' },
      { temporalCodec: { origin: 'https://ui.example.com', token: 'a-token-of-twenty-characters' } },
    ],
    [
      { BRAND_NAME: 'Harbour', BRAND_COLOR: '#0F766E', BRAND_LOGO_URL: 'https://example.com/logo.svg' },
      { brand: { name: 'Harbour', color: '#0F766E', logoUrl: 'https://example.com/logo.svg' } },
    ],
    [
      {
        ...{ OIDC_ISSUER: 'https://id.example.com/realms/mail', OIDC_CLIENT_ID: 'mail', OIDC_CLIENT_SECRET: 'x' },
        ...{ OIDC_ADMIN_GROUPS: 'mail-admins, /owners', OIDC_VIEWER_GROUPS: '*' },
      },
      {
        signIn: {
          client: {
            ...{ issuer: 'https://id.example.com/realms/mail', clientId: 'mail', clientSecret: 'x' },
            ...{ scope: 'openid profile email', groupsClaim: 'groups' },
          },
          groups: { full: ['mail-admins', '/owners'], operate: [], read: ['*'] },
        },
      },
    ],
    [{ TEMPORAL_UI_URL: 'https://temporal.example.com/' }, { temporalUiUrl: 'https://temporal.example.com' }],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://otel:4318/' }, { otlpEndpoint: 'http://otel:4318' }],
    [{ WORKER_METRICS_PORT: '0' }, { workerMetrics: null }],
    [
      { WORKER_METRICS_PORT: '9999', WORKER_METRICS_HOST: '0.0.0.0' },
      { workerMetrics: { host: '0.0.0.0', port: 9999 } },
    ],
    [{ STORAGE_URL: 's3://bucket/prefix' }, { storageUrl: 's3://bucket/prefix' }],
    [{ STORAGE_ENCRYPTION: 'true' }, { storageEncryption: true }],
    [{ ENCRYPTION_KEY_PREVIOUS: KEY }, { encryptionKeyPrevious: Buffer.alloc(32, 7) }],
    [{ OUTBOUND_ALLOW: '10.0.0.0/8, fd00::/8,' }, { outboundAllow: ['10.0.0.0/8', 'fd00::/8'] }],
    [{ ALLOW_INSECURE_MAIL: 'TRUE' }, { allowInsecureMail: 'always' }],
    [{ ALLOW_INSECURE_MAIL: 'loopback' }, { allowInsecureMail: 'loopback' }],
    [
      {
        ALERT_URL: 'https://hooks.example.com/x',
        ALERT_SECRET: `whsec_${Buffer.alloc(32).toString('base64')}`,
        ALERT_EMAIL: 'ops@example.com, night@example.com',
        ALERT_SMTP_URL: 'smtps://ops%40example.com:se%2F100%%25c%e4ret@smtp.example.com',
      },
      {
        alerts: {
          url: { url: 'https://hooks.example.com/x', secret: `whsec_${Buffer.alloc(32).toString('base64')}` },
          email: {
            to: ['ops@example.com', 'night@example.com'],
            smtp: {
              ...{ host: 'smtp.example.com', port: 465, encryption: 'SSL' },
              ...{ user: 'ops@example.com', password: 'se/100%%c%e4ret', from: 'ops@example.com' },
            },
          },
          backlog: 10_000,
        },
      },
    ],
    [
      { ALERT_EMAIL: 'ops@example.com', ALERT_SMTP_URL: 'smtp://ops:x@[2001:db8::25]?from=ops@example.com' },
      {
        alerts: expect.objectContaining({
          email: expect.objectContaining({ smtp: expect.objectContaining({ host: '2001:db8::25' }) }),
        }),
      },
    ],
    [
      { WEBHOOK_RETRY_SCHEDULE: '500ms, 1.5s,2h', WEBHOOK_TIMEOUT: '1m', WEBHOOK_AUTO_DISABLE: 'false' },
      { webhook: { retryScheduleMs: [500, 1500, 7_200_000], timeoutMs: 60_000, autoDisable: false } },
    ],
    [
      { TEMPORAL_API_KEY: 'secret' },
      { temporal: { address: 'temporal:7233', namespace: 'default', apiKey: 'secret', tls: {} } },
    ],
    [
      { TEMPORAL_TLS: 'true', TEMPORAL_NAMESPACE: 'mail', TEMPORAL_TLS_SERVER_NAME: 't.example' },
      { temporal: { address: 'temporal:7233', namespace: 'mail', tls: { serverName: 't.example' } } },
    ],
  ])('read %j', (env, expected) => {
    expect(loadConfig({ ...NEEDED, ...env })).toMatchObject(expected);
  });

  it.each<[string, string | undefined]>([
    ['PORT', '65536'],
    ['PORT', '3000x'],
    ['WORKER_METRICS_PORT', '70000'],
    ['PUBLIC_URL', 'mail.example.com'],
    ['PUBLIC_URL', 'https://mail.example.com/?a=b'],
    ['BRAND_COLOR', 'red'],
    ['BRAND_COLOR', '#12345'],
    ['BRAND_LOGO_URL', 'http://example.com/logo.png'],
    ['BRAND_LOGO_URL', 'javascript:alert(1)'],
    ['TEMPORAL_UI_URL', 'temporal.example.com'],
    ['TRUST_PROXY', 'yes'],
    ['TRUST_PROXY', '0'],
    ['TRUST_PROXY', '10.0.0.1'],
    ['TRUST_PROXY', '10.0.0.0/33'],
    ['DATABASE_URL', undefined],
    ['DATABASE_URL', 'mysql://root:hunter2@db/mail'],
    ['TEMPORAL_ADDRESS', undefined],
    ['TEMPORAL_ADDRESS', 'http://temporal:7233'],
    ['TEMPORAL_TLS', 'perhaps'],
    ['TEMPORAL_TLS_SERVER_CA_CERT_PATH', '/nowhere/ca.pem'],
    ['STORAGE_URL', 'https://bucket.example.com'],
    ['STORAGE_URL', 's3:///prefix'],
    ['ENCRYPTION_KEY', undefined],
    ['ENCRYPTION_KEY', 'hunter2'],
    ['ENCRYPTION_KEY', Buffer.alloc(31).toString('base64')],
    ['ENCRYPTION_KEY_PREVIOUS', 'hunter2'],
    ['BOOTSTRAP_API_KEY', 'hunter2'],
    ['OUTBOUND_ALLOW', '10.0.0.0'],
    ['ALLOW_INSECURE_MAIL', 'yes'],
    ['ALLOW_INSECURE_MAIL', 'constructor'],
    ['WEBHOOK_RETRY_SCHEDULE', '5s,,30s'],
    ['WEBHOOK_RETRY_SCHEDULE', '5 seconds'],
    ['WEBHOOK_TIMEOUT', '0'],
    ['WEBHOOK_AUTO_DISABLE', 'never'],
    ['ALERT_URL', 'example.com'],
    ['ALERT_SECRET', 'whsec_short'],
    ['ALERT_EMAIL', 'ops@example.com, example.com'],
    ['ALERT_SMTP_URL', 'smtp://smtp.example.com'],
    ['ALERT_SMTP_URL', 'smtp://ops:secret@smtp.example.com'],
    ['ALERT_BACKLOG', '-1'],
    ['STORAGE_ENCRYPTION', 'aes'],
    ['SYNC_POLL_INTERVAL', '-1s'],
    ['SYNC_MAX_MAILBOXES', '0'],
    ['MAX_BODY_BYTES', '1k'],
    ['MAX_WRONG_KEYS_PER_MINUTE', '-1'],
    ['MAX_REQUESTS_PER_MINUTE_PER_KEY', 'many'],
    ['MAX_REQUESTS_PER_MINUTE_PER_ADDRESS', '-1'],
    ['AUDIT_RETENTION', '1h'],
    ['SERVERS', '0'],
    ['SERVERS', 'many'],
    ['MAX_ATTACHMENT_BYTES', '-1'],
    ['MAX_ATTACHMENTS', 'many'],
    ['MAX_RECIPIENTS', '0'],
    ['MAX_SUBJECT_LENGTH', '0'],
    ['LOG_LEVEL', 'loud'],
  ])('refuse %s=%s in one line that names it and repeats no secret', (name, value) => {
    const load = () => loadConfig({ ...NEEDED, [name]: value });
    expect(load).toThrow(ConfigError);
    expect(load).toThrow(new RegExp(`^${name} [^\\n]+$`));
    expect(load).not.toThrow(/hunter2/);
  });

  it('are all checked before the start starts anything, and none is required', () => {
    expect(loadStartConfig({ DATA_DIR: '/data' })).toEqual({
      dataDir: '/data',
      host: '127.0.0.1',
      port: 3000,
      temporalUiPort: 8233,
      workerMetricsPort: 9464,
      workers: 1,
      servers: 1,
      embedPostgres: true,
      embedTemporal: true,
      apiKeyIsOurs: true,
      encryptionKeyIsOurs: true,
      storageUrl: 'file:///data/storage',
      storageIsOurs: true,
    });
    expect(loadStartConfig(NEEDED)).toMatchObject({ embedPostgres: false, embedTemporal: false });
    expect(() => loadStartConfig({ LOG_LEVEL: 'loud' })).toThrow(/^LOG_LEVEL /);
    expect(() => loadStartConfig({ TEMPORAL_UI_PORT: 'x' })).toThrow(/^TEMPORAL_UI_PORT /);
    expect(() => loadStartConfig({ PORT: '0' })).toThrow(/^PORT /);
  });
});
