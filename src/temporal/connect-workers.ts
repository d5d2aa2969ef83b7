import type { Client } from '@temporalio/client';
import { NativeConnection } from '@temporalio/worker';
import { connectionOptions, createClient, type TemporalSettings } from './connect.ts';

/**
 * Opens a connection that workers and a client of the same process share: only then can Temporal hand the first task of a
 * run to the process that starts it. Rejects when the server cannot be reached; reconnects automatically later.
 */
export async function connectWorkers(
  settings: TemporalSettings,
): Promise<{ connection: NativeConnection; client: Client; close(): Promise<void> }> {
  const connection = await NativeConnection.connect(connectionOptions(settings));
  return { connection, client: createClient(connection, settings), close: () => connection.close() };
}
