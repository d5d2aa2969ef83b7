import { expect, it } from '@jest/globals';
import { loadConfig } from '../../src/config/config.ts';
import { SETTINGS } from '../../src/config/settings/index.ts';
import { settingsInForce } from '../../src/config/settings-in-force.ts';

const SECRET = 'canary-password';
const env = {
  DATABASE_URL: `postgresql://mail:${SECRET}@127.0.0.1/mail`,
  TEMPORAL_ADDRESS: '127.0.0.1:7233',
  ENCRYPTION_KEY: Buffer.alloc(32, SECRET).toString('base64'),
  BOOTSTRAP_API_KEY: `${SECRET}-${SECRET}`,
  STORAGE_URL: 's3://bucket/mail',
  WEBHOOK_TIMEOUT: '5s',
};

it('shows what is in force, and where it is from', () => {
  const shown = settingsInForce(env, loadConfig(env));
  expect(shown).toContainEqual({ name: 'WEBHOOK_TIMEOUT', value: '5s', is_default: false, is_secret: false });
  expect(shown).toContainEqual({ name: 'PORT', value: '3000', is_default: true, is_secret: false });
  expect(shown).toContainEqual({ name: 'BOOTSTRAP_API_KEY', value: 'set', is_default: false, is_secret: true });
  expect(shown).toContainEqual({ name: 'TEMPORAL_API_KEY', value: 'not set', is_default: true, is_secret: true });
});

it('shows no secrets', () => {
  const text = JSON.stringify(settingsInForce(env, loadConfig(env)));
  for (const secret of [SECRET, env.ENCRYPTION_KEY, 'postgresql:']) expect(text).not.toContain(secret);
});

it('shows every documented setting once, of secrets whether they are set', () => {
  const names = settingsInForce(env, loadConfig(env)).map(({ name }) => name);
  expect(names.sort()).toEqual(Object.keys(SETTINGS).sort());
});

it('shows settings as they are written, and their defaults', () => {
  const given = {
    MAX_REQUESTS_PER_MINUTE_PER_KEY: '600',
    AUDIT_RETENTION: '30d',
    WORKERS: '2',
    STORAGE_ENCRYPTION: 'true',
  };
  const values = (all: Record<string, string>) =>
    Object.fromEntries(settingsInForce(all, loadConfig(all)).map(({ name, value }) => [name, value]));
  expect(values({ ...env, ...given })).toMatchObject(given);
  expect(values(env)).toMatchObject({
    ...{ MAX_REQUESTS_PER_MINUTE_PER_KEY: '0', AUDIT_RETENTION: '90d', WORKERS: '1', STORAGE_ENCRYPTION: 'false' },
    ...{ S3_ENDPOINT: 'none', OIDC_SCOPE: 'openid profile email', TEMPORAL_TLS: 'false', WORKER_METRICS_PORT: '9464' },
    ...{ TEMPORAL_TLS_CLIENT_KEY_PATH: 'not set', TEMPORAL_UI_URL: 'none', OTEL_EXPORTER_OTLP_ENDPOINT: 'none' },
  });
});

it('shows URLs without their passwords', () => {
  const url = (host: string) => `https://user:${SECRET}@${host}/path?token=${SECRET}`;
  const all = {
    ...env,
    S3_ENDPOINT: url('s3.example.com'),
    TEMPORAL_UI_URL: url('temporal.example.com'),
    OTEL_EXPORTER_OTLP_ENDPOINT: url('otel.example.com'),
    BRAND_LOGO_URL: url('logo.example.com'),
  };
  const shown = settingsInForce(all, loadConfig(all));
  expect(JSON.stringify(shown)).not.toContain(SECRET);
  expect(shown).toContainEqual({
    ...{ name: 'OTEL_EXPORTER_OTLP_ENDPOINT', value: 'https://otel.example.com/path' },
    ...{ is_default: false, is_secret: false },
  });
});
