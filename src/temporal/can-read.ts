import { Connection } from '@temporalio/client';

/** gRPC's status code. */
const NOT_FOUND = 5;
const READ_MS = 3_000;

/** Whether a server without keys or TLS reads from its database: it responds in time that it has no such workflow. */
export async function canRead(address: string): Promise<boolean> {
  try {
    const connection = await Connection.connect({ address, connectTimeout: READ_MS });
    try {
      const execution = { workflowId: 'no such workflow' };
      await connection.withDeadline(Date.now() + READ_MS, () =>
        connection.workflowService.describeWorkflowExecution({ namespace: 'default', execution }),
      );
      return true;
    } finally {
      await connection.close();
    }
  } catch (error) {
    return (error as { code?: unknown }).code === NOT_FOUND;
  }
}
