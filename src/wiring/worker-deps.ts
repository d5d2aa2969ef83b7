import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import type { Client } from '@temporalio/client';
import type { DeliverDeps } from '../activities/deliver.ts';
import type { AlertDeps, AlertSettings } from '../alerts/send.ts';
import { createActivities } from '../activities/index.ts';
import { dropOnRemoval } from '../activities/remove.ts';
import type { Config } from '../config/config.ts';
import {
  createLeaseNotifications,
  type LeaseNotifications,
  LEASES_CHANNEL,
  requestRoom,
} from '../db/coordination/lease.ts';
import { takeLogin } from '../db/coordination/login-budget.ts';
import { lastRestoredAt } from '../db/coordination/restored.ts';
import type { Db } from '../db/driver/client.ts';
import { listenTo } from '../db/driver/listen.ts';
import { createSessionPool } from '../imap/pool.ts';
import { createLoginTurns } from '../activities/login-turns.ts';
import { createAdmission } from '../mailbox/admission.ts';
import { createUndelivered } from '../mailbox/ingest/undelivered.ts';
import { openCredentials } from '../mailbox/settings.ts';
import type { MaintenanceDeps } from '../maintenance/table.ts';
import type { RunningWatches } from '../mailbox/running-watches.ts';
import { createMailParser } from '../mime/parser.ts';
import type { Logger } from '../runtime/logger.ts';
import { openTempDir } from '../runtime/temp-dir.ts';
import { createTokens, type Tokens } from '../oauth/tokens.ts';
import { type CachedDataKeys, createDataKeys } from '../security/data-keys.ts';
import { createOutbound, type Outbound } from '../security/outbound.ts';
import { createSecrets, type Secrets } from '../security/secrets.ts';
import { createSubmitter } from '../smtp/submit.ts';
import { type DataKeys, encryptStorage } from '../storage/encrypted.ts';
import { openStorage, type Storage } from '../storage/storage.ts';
import { codecKeys } from '../temporal/connect.ts';
import { createCallSlots } from '../webhooks/attempt/call-slots.ts';
import { createPoster } from '../webhooks/attempt/post.ts';
import type { LostRuns } from '../webhooks/dispatch/lost-runs.ts';
import { hurryRun } from '../webhooks/dispatch/retry-delivery.ts';
import { accountWorkflowId, SIGNALS } from '../workflows/names.ts';
import { tokenFetch } from './token-fetch.ts';

/** Concurrent calls to one webhook endpoint, over all workers. */
const CALLS_PER_ENDPOINT = 10;

/** Objects that the entry file has made before the activities. */
export interface Surroundings {
  workerId: string;
  /** worker processes of the installation; see maintenance/live-workers.ts */
  workerCount(): number;
  watches: RunningWatches;
  db: Db;
  client: Client;
  /** aborted when the worker shuts down */
  shutdown: AbortSignal;
  onAttempts: NonNullable<DeliverDeps['onAttempts']>;
  lostRuns: LostRuns;
}

/** The folder with plain-text messages during parsing. */
export const tempDirOf = ({ dataDir }: Config): string => join(dataDir, 'tmp');

/** Makes the activities and their dependencies. `close` closes all that was opened here. */
export function openWorkerDeps(config: Config, logger: Logger, surroundings: Surroundings) {
  const { db, client, workerCount, ...others } = surroundings;
  const outbound = createOutbound({ allow: config.outboundAllow });
  const tempDir = openTempDir(tempDirOf(config));
  const parser = createMailParser({ threads: Math.max(1, availableParallelism() - 1), tempDir });
  const poster = createPoster(outbound);
  const sessions = createSessionPool({
    outbound,
    makeRoom: (accountId) => requestRoom(db, accountId),
    onLogin: (host) => countLogin(host),
  });
  const submitter = createSubmitter({ outbound });
  const secrets = createSecrets(codecKeys(config));
  const tokens = tokensOf(config, { db, secrets, logger, outbound });
  const dataKeys = createDataKeys({ db, secrets });
  const leases = createLeaseNotifications();
  const leaseListener = listenForLeases(config.databaseUrl, leases, dataKeys, logger);
  dropOnRemoval(leases, { pools: [sessions, submitter, dataKeys], parser }, logger);
  leases.onRoomWanted((accountId) => void sessions.dropIdle(accountId));

  function countLogin(host: string): void {
    takeLogin(db, host, config.sync.loginsPerMinute).catch((err: unknown) =>
      logger.warn({ err }, 'could not count login'),
    );
  }

  const activities = createActivities({
    ...others,
    db,
    admission: createAdmission(),
    logins: createLoginTurns({ db, logger, perMinute: config.sync.loginsPerMinute }),
    restoredAt: readOnce(() => lastRestoredAt(db)),
    logger,
    secrets,
    tokens,
    auditRetentionMs: config.auditRetentionMs,
    outbound,
    leases,
    sessions,
    submitter,
    undelivered: createUndelivered(logger),
    publicUrl: config.publicUrl,
    parser,
    tempDir,
    poster,
    storage: storageOf(config, dataKeys),
    client: client.workflow,
    sync: config.sync,
    heartbeatTimeoutMs: config.sync.heartbeatTimeoutMs,
    allowInsecureMail: config.allowInsecureMail,
    webhook: config.webhook,
    signalConnected: (id) => client.workflow.getHandle(accountWorkflowId(id)).signal(SIGNALS.mailboxConnected),
    slots: createCallSlots(() => Math.max(1, Math.floor(CALLS_PER_ENDPOINT / workerCount()))),
    hurry: (workflowId) => hurryRun(client, workflowId),
  });
  const close = async (): Promise<void> => {
    poster.close();
    await Promise.all([leaseListener.close(), sessions.close(), submitter.close(), parser.close()]);
  };
  return { activities, alerts: alertsOf(config, { poster, submitter }), close };
}

/** The messages to operators; undefined: none are set. */
function alertsOf(
  { alerts: { url, email, backlog }, publicUrl }: Config,
  parts: Pick<AlertDeps, 'poster' | 'submitter'>,
): MaintenanceDeps['alerts'] {
  if (!url && !email) return undefined;
  const settings: AlertSettings = {
    ...(url ? { url } : {}),
    ...(email ? { email: { to: email.to, from: email.smtp.from, smtp: email.smtp } } : {}),
    backlog,
  };
  return { ...parts, settings, installation: publicUrl };
}

/** What does not change while a worker runs: a restore needs all of them stopped. */
function readOnce<T>(read: () => Promise<T>): () => Promise<T> {
  let known: { value: T } | undefined;
  return async () => (known ??= { value: await read() }).value;
}

function tokensOf(config: Config, parts: { db: Db; secrets: Secrets; logger: Logger; outbound: Outbound }): Tokens {
  const { outbound, ...own } = parts;
  return createTokens({
    ...own,
    fetch: tokenFetch(outbound, config),
    oauth2Of: (accountId, credentials) => openCredentials(own.secrets, accountId, credentials).oauth2,
  });
}

function listenForLeases(url: string, leases: LeaseNotifications, keys: CachedDataKeys, logger: Logger) {
  // a notification without a payload follows a lost connection: removals may have been missed
  const receive = (payload?: string) => (payload === undefined ? keys.dropAll() : leases.receive(payload));
  return listenTo(url, { [LEASES_CHANNEL]: receive }, logger);
}

function storageOf({ storageUrl, s3Endpoint, storageEncryption: encrypts }: Config, keys: DataKeys): Storage {
  return encryptStorage(openStorage(storageUrl, s3Endpoint ? { s3Endpoint } : {}), { keys, encrypts });
}
