import { Client, type ClientInterceptors, Connection, type WorkflowClientInterceptor } from '@temporalio/client';
import { NativeConnection } from '@temporalio/worker';
import type { TemporalTls } from '../config.ts';
import type { CodecKeys } from './codec.ts';
import { createDataConverter } from './data-converter.ts';
import { requestIdOfCaller } from './request-id.ts';

/** The address of Temporal and the keys of its payloads; a part of Config. */
export interface TemporalSettings {
  temporal: { address: string; namespace: string; apiKey?: string; tls?: TemporalTls };
  encryptionKey: Buffer;
  encryptionKeyPrevious?: Buffer;
}

/** The keys for payloads: those of the settings. */
export function codecKeys(settings: Pick<TemporalSettings, 'encryptionKey' | 'encryptionKeyPrevious'>): CodecKeys {
  const { encryptionKey: current, encryptionKeyPrevious: previous } = settings;
  return previous ? { current, previous } : { current };
}

/**
 * A client for a process without workers (the API). It connects on first use and again whenever the server was away:
 * calls fail meanwhile.
 */
export function lazyClient(
  settings: TemporalSettings,
  interceptors: readonly WorkflowClientInterceptor[] = [],
): { client: Client; close(): Promise<void> } {
  const connection = Connection.lazy(connectionOptions(settings));
  const client = createClient(connection, settings, { workflow: [requestIdOfCaller, ...interceptors] });
  return { client, close: () => connection.close() };
}

/**
 * A connection that workers and a client of the same process share: only then can Temporal hand the first task of a
 * run to the process that starts it. Rejects when the server cannot be reached now; reconnects by itself later.
 */
export async function connectWorkers(
  settings: TemporalSettings,
): Promise<{ connection: NativeConnection; client: Client; close(): Promise<void> }> {
  const connection = await NativeConnection.connect(connectionOptions(settings));
  return { connection, client: createClient(connection, settings), close: () => connection.close() };
}

function createClient(
  connection: Connection | NativeConnection,
  settings: TemporalSettings,
  interceptors: ClientInterceptors = {},
): Client {
  return new Client({
    connection,
    namespace: settings.temporal.namespace,
    dataConverter: createDataConverter(codecKeys(settings)),
    interceptors,
  });
}

function connectionOptions({ temporal: { address, apiKey, tls } }: TemporalSettings) {
  return {
    address,
    ...(apiKey === undefined ? {} : { apiKey }),
    ...(tls === undefined
      ? {}
      : {
          tls: {
            ...(tls.serverName === undefined ? {} : { serverNameOverride: tls.serverName }),
            ...(tls.ca === undefined ? {} : { serverRootCACertificate: tls.ca }),
            ...(tls.cert && tls.key ? { clientCertPair: { crt: tls.cert, key: tls.key } } : {}),
          },
        }),
  };
}
