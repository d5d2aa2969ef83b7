import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { DAY } from '../../duration.ts';
import {
  ConfigError,
  duration,
  endpoint,
  flag,
  keyOf,
  parsedUrl,
  required,
  type Setting,
  text,
  valueOf,
} from '../setting.ts';

const DATABASE_URL: Setting<string> = {
  meaning:
    'Postgres 15 or later with the extension `pg_trgm`, and a UTF-8 `LC_CTYPE`. Each process takes about 24 connections.',
  values: '`postgres://` URL',
  default: 'required; with `npm start`: an embedded one in `DATA_DIR`',
  read(env, name) {
    const value = required(env, name, 'a Postgres URL (npm start runs its own database)');
    parsedUrl(name, value, ['postgres:', 'postgresql:']);
    return value;
  },
};

const STORAGE_URL: Setting<string | undefined> = {
  meaning:
    'Where raw mail and attachments are stored. With `npm start` a folder must not contain `DATA_DIR`. A bucket uses the variables of the AWS SDK: `AWS_REGION`, ' +
    '`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`.',
  values: '`file:///path` or `s3://bucket/prefix`',
  default: '`storage` in `DATA_DIR`',
  read(env, name) {
    const value = valueOf(env, name);
    if (value === undefined) return undefined;
    // `file:./mail` is relative to the working directory, like DATA_DIR
    if (/^file:(?!\/)/.test(value)) return pathToFileURL(resolve(value.slice('file:'.length))).href;
    const parsed = parsedUrl(name, value, ['file:', 's3:']);
    if (parsed.protocol === 's3:' && parsed.hostname === '') {
      throw new ConfigError(name, 'must name a bucket: s3://bucket/prefix');
    }
    if (parsed.protocol === 'file:' && parsed.hostname !== '') {
      throw new ConfigError(name, 'must be an absolute path: file:///path');
    }
    return value;
  },
};

const ENCRYPTION_KEY: Setting<Buffer> = {
  meaning:
    'Encrypts mail passwords, webhook secrets, the data keys of `STORAGE_ENCRYPTION` and workflow histories. Without it they ' +
    'are lost: store a copy apart from the database.',
  values: '32 bytes in base64: `openssl rand -base64 32`',
  default: 'required; with `npm start` and its own database: made once, stored in `DATA_DIR`',
  read: keyOf,
};

/** The key, `lost`, or undefined. */
const ENCRYPTION_KEY_PREVIOUS: Setting<Buffer | 'lost' | undefined> = {
  meaning:
    'A second key that decrypts, while keys are [rotated](operating.md#rotate-the-encryption-key): first the next one, then the ' +
    'previous one. `lost` gives up what a lost key encrypted: accounts and endpoints have to be connected again.',
  values: '32 bytes in base64, or `lost`',
  default: 'none',
  read(env, name) {
    const value = valueOf(env, name);
    return value === undefined || value === 'lost' ? value : keyOf(env, name);
  },
};

/** Where data is stored, and its keys. */
export const DATA = {
  DATA_DIR: text(
    'Databases, mail, logs and generated keys of `npm start`; temporary files of each process. Only its owner can read it.',
    'path',
    '.data',
  ),
  DATABASE_URL,
  STORAGE_URL,
  S3_ENDPOINT: endpoint("S3 server other than Amazon's, addressed in path style.", "Amazon's"),
  STORAGE_ENCRYPTION: flag(
    'Encrypts raw mail and attachments from now on, under a key for each account. Existing files stay as they are, readable.',
    false,
  ),
  ENCRYPTION_KEY,
  ENCRYPTION_KEY_PREVIOUS,
  AUDIT_RETENTION: duration('How long records of the audit log (`GET /audit`) are stored.', 90 * DAY, [
    DAY,
    3650 * DAY,
  ]),
};
