import { hkdfSync } from 'node:crypto';
import { channelsOf } from '../alerts/channels.ts';
import { existsSync } from 'node:fs';
import type { Client } from '@temporalio/client';
import { wakeImportRun } from '../activities/import-history.ts';
import { createCommands } from '../api/commands/index.ts';
import type { ApiDeps } from '../api/deps.ts';
import type { Config, Env } from '../config/config.ts';
import { settingsInForce } from '../config/settings-in-force.ts';
import type { FinishedRuns } from '../db/coordination/finished-runs.ts';
import type { Database } from '../db/driver/client.ts';
import { createDiscoverSources, discoverServers } from '../discovery/discover.ts';
import { helpFor } from '../discovery/providers.ts';
import type { Logger } from '../runtime/logger.ts';
import type { CachedDataKeys } from '../security/data-keys.ts';
import { createOutbound, type Outbound } from '../security/outbound.ts';
import { createSecrets } from '../security/secrets.ts';
import { personSignIn } from './person-sign-in.ts';
import { tokenFetch } from './token-fetch.ts';
import { encryptStorage } from '../storage/encrypted.ts';
import { openStorage } from '../storage/storage.ts';
import { isLocal } from '../runtime/local-hosts.ts';
import { createPayloadCodec } from '../temporal/codec.ts';
import { codecRoutes } from '../temporal/codec-server.ts';
import { codecKeys } from '../temporal/connect.ts';
import { attemptWaiting, hurryRun, retryDelivery } from '../webhooks/dispatch/retry-delivery.ts';
import { startBatchRun } from '../api/commands/batches.ts';
import { cancelReplayRun, startReplayRun } from '../webhooks/log/replay-runs.ts';

/** Time for the storage to respond, and per megabyte written, ms. */
const STORAGE_MS = 3_000;
const PING_MS = 1_500;

/** Objects that the entry file has made. */
export interface ApiSurroundings extends Pick<Database, 'db' | 'pool'> {
  /** of the process: the settings in force are shown by the names of their variables */
  env: Env;
  /** the built pages of web/, and the built site of docs/ */
  pagesDir: string;
  docsDir: string;
  keys: CachedDataKeys;
  finished: FinishedRuns;
  client: Client;
}

/** Makes what the routes need. */
export function apiDeps(config: Config, logger: Logger, surroundings: ApiSurroundings): ApiDeps {
  const { db, pool, keys, finished, client } = surroundings;
  const secrets = createSecrets(codecKeys(config));
  const opened = openStorage(config.storageUrl, {
    ...(config.s3Endpoint ? { s3Endpoint: config.s3Endpoint } : {}),
    answerMs: STORAGE_MS,
  });
  const storage = encryptStorage(opened, { keys, encrypts: config.storageEncryption });
  const outbound = createOutbound({ allow: config.outboundAllow });
  return {
    db,
    pool,
    secrets,
    logger,
    storage,
    outbound,
    fetch: tokenFetch(outbound, config),
    ...(config.signIn ? { signIn: personSignIn(config.signIn) } : {}),
    commands: createCommands({
      client,
      db,
      secrets,
      storage,
      sendLimits: config.limits.send,
      finished,
      retryDelivery: (id) => retryDelivery(client, db, id),
      attemptWaiting: (endpointId) =>
        attemptWaiting({ db, logger, hurry: (workflowId) => hurryRun(client, workflowId) }, endpointId),
      startBatch: (batch) => startBatchRun(client, batch).catch(notStarted(logger, { batchId: batch.id })),
      startReplay: (replay) =>
        startReplayRun(client, replay).catch((err: unknown) =>
          logger.warn({ err, replayId: replay.id }, 'could not start replay workflow; a worker will retry'),
        ),
      cancelReplay: (id) => cancelReplayRun({ client, db, logger }, id),
      wakeImport: wakeImportWith(client, config, logger),
    }),
    ...(config.temporalCodec
      ? { codecRoutes: codecRoutes({ codec: createPayloadCodec(codecKeys(config), 'show'), ...config.temporalCodec }) }
      : {}),
    findServers: findServersWith(outbound),
    helpFor,
    installation: {
      temporal_ui_url: config.temporalUiUrl,
      temporal_namespace: config.temporal.namespace,
      data: settingsInForce(surroundings.env, config),
    },
    ...(existsSync(surroundings.pagesDir) ? { pagesDir: surroundings.pagesDir } : {}),
    docsDir: surroundings.docsDir,
    pingTemporal: async () => {
      await client.withDeadline(Date.now() + PING_MS, () => client.workflowService.getSystemInfo({}));
    },
    settings: settingsOf(config),
  };
}

function settingsOf(config: Config): ApiDeps['settings'] {
  return {
    publicUrl: config.publicUrl,
    brand: config.brand,
    bodyBytes: config.limits.bodyBytes,
    uploadedBytes: config.limits.uploadedBytes,
    wrongKeysPerMinute: config.limits.wrongKeysPerMinute,
    requestsPerMinute: config.limits.requestsPerMinute,
    send: config.limits.send,
    alerts: { channels: channelsOf(config.alerts), backlog: config.alerts.backlog },
    signingKeys: signingKeys(config),
    isLocal: isLocal(config.host),
    trustProxy: config.trustProxy,
  };
}

function wakeImportWith(client: Client, config: Config, logger: Logger): ApiDeps['commands']['wakeImport'] {
  return (ref) =>
    wakeImportRun(client.workflow, ref, config.sync.heartbeatTimeoutMs).catch((err: unknown) =>
      logger.warn({ err, importId: ref.id }, 'could not wake import workflow; a worker will retry'),
    );
}

/** Finds, for the pages, the servers of an address and its provider's login hint. */
function findServersWith(outbound: Outbound): ApiDeps['findServers'] {
  const sources = createDiscoverSources(outbound);
  return async (address) => {
    const { imap = null, smtp = null, closed } = await discoverServers(address, sources);
    const isClosed = closed !== undefined && imap === null;
    const help = helpFor(imap?.host);
    return isClosed
      ? { imap, smtp, ...help, hint: closed.reason, password_login: 'none', provider: closed.code }
      : { imap, smtp, ...help };
  };
}

/** Signing keys, derived from the encryption keys but different from them. */
function signingKeys({ encryptionKey, encryptionKeyPrevious }: Config): [Buffer, ...Buffer[]] {
  const derive = (key: Buffer) => Buffer.from(hkdfSync('sha256', key, '', 'api signing', 32));
  return [derive(encryptionKey), ...(encryptionKeyPrevious ? [derive(encryptionKeyPrevious)] : [])];
}

const notStarted = (logger: Logger, about: object) => (err: unknown) =>
  logger.warn({ err, ...about }, 'could not start batch workflow; a worker will retry');
