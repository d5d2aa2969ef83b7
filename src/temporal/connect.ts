import {
  Client,
  type ClientInterceptors,
  Connection,
  defaultGrpcRetryOptions,
  makeGrpcRetryInterceptor,
  type WorkflowClientInterceptor,
} from '@temporalio/client';
import type { NativeConnection } from '@temporalio/worker';
import type { TemporalTls } from '../config/config.ts';
import type { CodecKeys } from './codec.ts';
import { createDataConverter } from './data-converter.ts';
import { requestIdOfCaller } from './request-id.ts';

/** The address of Temporal and the keys of its payloads; a part of Config. */
export interface TemporalSettings {
  temporal: { address: string; namespace: string; apiKey?: string; tls?: TemporalTls };
  encryptionKey: Buffer;
  encryptionKeyPrevious?: Buffer;
}

/** The keys for payloads, from the settings. */
export function codecKeys(settings: Pick<TemporalSettings, 'encryptionKey' | 'encryptionKeyPrevious'>): CodecKeys {
  const { encryptionKey: current, encryptionKeyPrevious: previous } = settings;
  return previous ? { current, previous } : { current };
}

/**
 * A client for a process without workers (the API). It connects on first use and reconnects after an outage of the
 * server, during which calls fail.
 */
export function lazyClient(
  settings: TemporalSettings,
  interceptors: readonly WorkflowClientInterceptor[] = [],
): { client: Client; close(): Promise<void> } {
  let isClosed = false;
  const retries = retriesUntil(() => isClosed);
  const connection = Connection.lazy({ ...connectionOptions(settings), interceptors: [retries] });
  const client = createClient(connection, settings, { workflow: [requestIdOfCaller, ...interceptors] });
  return {
    client,
    close: () => {
      isClosed = true;
      return connection.close();
    },
  };
}

/** The retries of the SDK; calls outlive their connection, and a retry on one that is closed is an uncaught error. */
function retriesUntil(isClosed: () => boolean) {
  const { delayFunction, retryableDecider } = defaultGrpcRetryOptions();
  return makeGrpcRetryInterceptor({
    delayFunction,
    retryableDecider: (attempt, status) => !isClosed() && retryableDecider(attempt, status),
  });
}

/** A client that uses an open connection, with the keys of the settings. */
export function createClient(
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

export function connectionOptions({ temporal: { address, apiKey, tls } }: TemporalSettings) {
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
