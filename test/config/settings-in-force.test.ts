import { expect, it } from '@jest/globals';
import { loadConfig } from '../../src/config/config.ts';
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
