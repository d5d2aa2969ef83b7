import { join } from 'node:path';
import { type Env, loadEncryptionKeys, type StartConfig } from '../config/config.ts';
import { isUnusable } from '../db/driver/unusable.ts';
import { migrate, openDatabase } from '../db/open.ts';
import { describeError, type ErrorDescription } from '../runtime/logger.ts';
import { createPayloadCodec } from '../temporal/codec.ts';
import { startCodecServer } from '../temporal/codec-server.ts';
import { removeUnpacked } from './backup/unpacked.ts';
import { StartFailure } from './failure.ts';
import { firstFreePort, retryWhenPortTaken } from './ports.ts';
import { embedPostgres, startWhenUnused } from './postgres.ts';
import type { Report } from './report.ts';
import type { Supervisor } from './supervise.ts';
import { embedTemporal, explained } from './temporal.ts';
import { findTemporal } from './temporal-binary.ts';
import { hiddenAddress, startUiGuard } from './ui-guard.ts';

/** What starting the servers needs. */
export interface ServerStart {
  env: Env;
  settings: StartConfig;
  supervisor: Supervisor;
  report: Report;
  /** with which the UI of the embedded Temporal decodes payloads */
  uiPassword(): string;
}

/** Evaluations usually use mail servers and webhook receivers on this machine. */
const LOOPBACK = '127.0.0.0/8,::1/128';

/** Starts Postgres and Temporal where no setting names one; resolves to the settings that name them. */
export async function startServers(
  start: ServerStart,
): Promise<{ settings: Record<string, string>; temporalUiUrl?: string }> {
  const { env, settings } = start;
  const [databaseUrl, temporal] = await Promise.all([
    settings.embedPostgres ? startPostgres(start) : undefined,
    settings.embedTemporal ? startTemporal(start) : undefined,
  ]);
  const started: Record<string, string> = {};
  if (databaseUrl !== undefined) {
    started['DATABASE_URL'] = databaseUrl;
    if (isAbsent(env, 'OUTBOUND_ALLOW')) started['OUTBOUND_ALLOW'] = LOOPBACK;
    if (isAbsent(env, 'ALLOW_INSECURE_MAIL')) started['ALLOW_INSECURE_MAIL'] = 'loopback';
  }
  if (temporal !== undefined) {
    started['TEMPORAL_ADDRESS'] = temporal.address;
    if (isAbsent(env, 'TEMPORAL_UI_URL')) started['TEMPORAL_UI_URL'] = temporal.uiUrl;
  }
  return { settings: started, ...(temporal === undefined ? {} : { temporalUiUrl: temporal.uiUrl }) };
}

/** Connections of each process: its pool, and those that listen. */
const CONNECTIONS = 24;
const FEWEST_CONNECTIONS = 100;

/** With spare ones for operators. */
function connectionsFor({ workers, servers }: StartConfig): number {
  return Math.max(FEWEST_CONNECTIONS, CONNECTIONS * (workers + servers) + 20);
}

/** Starts Postgres; resolves to its URL. The caller has locked the data folder. */
export async function startPostgres(start: Pick<ServerStart, 'settings' | 'supervisor' | 'report'>): Promise<string> {
  await removeUnpacked(start.settings.dataDir, start.settings.storageUrl);
  return retryWhenPortTaken(() => startPostgresOnce(start));
}

async function startPostgresOnce({
  settings,
  supervisor,
  report,
}: Pick<ServerStart, 'settings' | 'supervisor' | 'report'>): Promise<string> {
  const { url, part } = await report.during('Preparing Postgres', async () =>
    embedPostgres({
      dir: settings.dataDir,
      port: await firstFreePort(5433),
      settings: { max_connections: String(connectionsFor(settings)) },
      printLine: report.line,
    }),
  );
  await report.during('Starting Postgres', (busyWith) => startWhenUnused(() => supervisor.start(part), busyWith));
  return url;
}

/** Starts Temporal; resolves to its address and the URL of its UI. */
async function startTemporal(start: ServerStart): Promise<{ address: string; uiUrl: string }> {
  const { env, settings, report } = start;
  const binary = await findTemporal({ env, dataDir: settings.dataDir, report });
  return retryWhenPortTaken(() => startTemporalOnce(start, binary));
}

async function startTemporalOnce(
  { env, settings, supervisor, report, uiPassword }: ServerStart,
  binary: string,
): Promise<{ address: string; uiUrl: string }> {
  const uiPort = await firstFreePort(settings.temporalUiPort);
  const ui = await hiddenAddress();
  const { encryptionKey: current, encryptionKeyPrevious: previous } = loadEncryptionKeys(env);
  // decrypts histories for the UI
  const codec = await startCodecServer({
    codec: createPayloadCodec(previous === undefined ? { current } : { current, previous }, 'show'),
    token: uiPassword(),
  });
  const guard = await startUiGuard({ port: uiPort, target: ui, codecPort: codec.port });
  const dbFile = join(settings.dataDir, 'temporal.db');
  const { address, part } = embedTemporal({
    binary,
    dbFile,
    port: await firstFreePort(7233, [uiPort]),
    ui,
    uiCodecEndpoint: guard.codecUrl,
  });
  await report
    .during('Starting Temporal', () => supervisor.start(part))
    .catch(async (error: unknown) => {
      await Promise.all([codec.close(), guard.close()]);
      throw explained(error, dbFile);
    });
  return { address, uiUrl: guard.url };
}

/** Migrates the database. `busyWith`: called with what it waits for. @throws StartFailure */
export async function migrateDatabase(url: string, busyWith: (detail: string) => void = () => {}): Promise<void> {
  const database = openDatabase(url, { max: 1 });
  try {
    await migrate(database, {
      onWait: () => busyWith('waiting until a long transaction of another program has ended'),
    });
  } catch (error) {
    if (isUnusable(error)) throw new StartFailure(error.message);
    const { message, code } = innermost(describeError(error));
    throw new StartFailure(
      `The database could not be migrated: ${message || 'no reason given'}${code ? ` (${code})` : ''}.`,
    );
  } finally {
    await database.close();
  }
}

/** The innermost cause: what Postgres or the network reported. */
function innermost(error: ErrorDescription): ErrorDescription {
  return error.cause === undefined ? error : innermost(error.cause);
}

function isAbsent(env: Env, name: string): boolean {
  return (env[name] ?? '').trim() === '';
}
