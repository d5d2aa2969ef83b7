import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { FastifyInstance, InjectOptions, LightMyRequestResponse } from 'fastify';
import { buildApp } from '../../../src/api/app.ts';
import type { ApiDeps, Commands } from '../../../src/api/deps.ts';
import { DEFAULT_SEND_LIMITS } from '../../../src/api/send-input.ts';
import { createApiKey } from '../../../src/db/access/api-keys.ts';
import type { Database } from '../../../src/db/driver/client.ts';
import { createLogger } from '../../../src/runtime/logger.ts';
import { helpFor } from '../../../src/discovery/providers.ts';
import { createOutbound } from '../../../src/security/outbound.ts';
import { createSecrets } from '../../../src/security/secrets.ts';
import { openStorage, type Storage } from '../../../src/storage/storage.ts';
import { expectDocumented } from '../assert/documented.ts';
import { testDatabase } from '../servers/postgres.ts';
import { recordExample } from '../assert/record-example.ts';

/** The HTTP API on a separate database and storage; the test replaces Temporal. */
export interface ApiUnderTest {
  app: FastifyInstance;
  database: Database;
  storage: Storage;
  key: string;
  /** A call under /api/v1 with the key; its response must be as documented. */
  call(method: InjectOptions['method'], path: string, options?: CallOptions): Promise<LightMyRequestResponse>;
  /** The JSON of a GET under /api/v1 that answers 200. */
  get<T>(path: string): Promise<T>;
  close(): Promise<void>;
}

export interface CallOptions {
  body?: unknown;
  headers?: Record<string, string>;
}

const notExpected = (): Promise<never> => Promise.reject(new Error('a command that the test did not expect'));

export async function apiUnderTest(
  given: {
    commands?: Partial<Commands>;
    bodyBytes?: number;
    uploadedBytes?: number;
    wrongKeysPerMinute?: number;
    requestsPerMinute?: ApiDeps['settings']['requestsPerMinute'];
    trustProxy?: ApiDeps['settings']['trustProxy'];
    isLocal?: boolean;
    deps?: Partial<ApiDeps>;
    publicUrl?: string;
  } = {},
): Promise<ApiUnderTest> {
  const test = await testDatabase();
  const { database } = test;
  const dir = await mkdtemp(join(tmpdir(), 'api-test-'));
  const storage = openStorage(pathToFileURL(dir).href);
  const app = await buildApp({
    db: database.db,
    pool: database.pool,
    storage,
    secrets: createSecrets({ current: randomBytes(32) }),
    outbound: createOutbound({ allow: [] }),
    fetch: () => Promise.reject(new Error('a call that the test did not expect')),
    commands: new Proxy({ attemptWaiting: async () => {}, ...given.commands } as Commands, {
      get: (commands, name: keyof Commands) => commands[name] ?? notExpected,
    }),
    findServers: () =>
      Promise.resolve({
        imap: null,
        smtp: null,
        hint: null,
        help_url: null,
        password_login: 'password',
        provider: null,
      }),
    helpFor,
    installation: { temporal_ui_url: null, temporal_namespace: 'default', data: [] },
    docsDir: join(dir, 'docs'),
    pingTemporal: () => Promise.resolve(),
    logger: createLogger('silent', 'test'),
    settings: {
      publicUrl: given.publicUrl ?? 'http://127.0.0.1:3000',
      brand: { name: 'Email API', color: null, logoUrl: null },
      bodyBytes: given.bodyBytes ?? 1024 * 1024,
      uploadedBytes: given.uploadedBytes ?? 1024 * 1024 * 1024,
      wrongKeysPerMinute: given.wrongKeysPerMinute ?? 0,
      requestsPerMinute: given.requestsPerMinute ?? { key: 0, address: 0 },
      send: DEFAULT_SEND_LIMITS,
      alerts: { channels: ['url'], backlog: 10_000 },
      signingKeys: [randomBytes(32)],
      isLocal: given.isLocal ?? false,
      trustProxy: given.trustProxy ?? false,
    },
    ...given.deps,
  });
  await app.ready();
  const { key } = await createApiKey(database.db, { name: 'test', expiresAt: null });

  const document = app.swagger();
  const call: ApiUnderTest['call'] = async (method = 'GET', path, { body, headers } = {}) => {
    const url = `/api/v1${path}`;
    const answer = await app.inject({
      method,
      url,
      headers: {
        'x-api-key': key,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { payload: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    expectDocumented(document, method, url, answer.statusCode, answer.body);
    recordExample(document, { method, url, status: answer.statusCode, request: body, body: answer.body });
    return answer;
  };

  return {
    app,
    database,
    storage,
    key,
    call,
    get: async <T>(path: string) => {
      const answer = await call('GET', path);
      if (answer.statusCode !== 200) throw new Error(`GET ${path}: ${answer.statusCode} ${answer.body}`);
      return answer.json<T>();
    },
    close: async () => {
      await app.close();
      await test.drop();
      await rm(dir, { recursive: true, force: true });
    },
  };
}
