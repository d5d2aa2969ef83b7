import { type Client, Connection } from '@temporalio/client';
import type { Logger } from '../runtime/logger.ts';
import { SEARCH_ATTRIBUTES, searchAttributeType } from '../workflows/names.ts';

/** IndexedValueType of the server's API. */
const INDEXED_VALUE_TYPES = { Keyword: 2, KeywordList: 7 };

/**
 * Registers the search attributes that the namespace lacks; the server refuses starts that use an unknown one. Where this
 * is not allowed (Temporal Cloud, a locked-down server) the log names those that an operator must add.
 */
export async function ensureSearchAttributes(client: Client, logger: Logger): Promise<void> {
  const { namespace } = client.options;
  const { operatorService } = client.connection as { operatorService?: OperatorService };
  if (!operatorService) return;
  let missing: string[] = Object.values(SEARCH_ATTRIBUTES);
  try {
    const { customAttributes } = await operatorService.listSearchAttributes({ namespace });
    missing = missing.filter((name) => !(name in customAttributes));
    if (missing.length === 0) return;
    const searchAttributes = Object.fromEntries(
      missing.map((name) => [name, INDEXED_VALUE_TYPES[searchAttributeType(name)]]),
    );
    await operatorService.addSearchAttributes({ namespace, searchAttributes });
    logger.info({ namespace, names: missing }, 'registered search attributes');
  } catch (err) {
    const lacking = missing.map((name) => `${name}=${searchAttributeType(name)}`);
    logger.warn({ err, namespace, names: lacking }, 'could not register search attributes; add them manually');
  }
}

/** Whether a server without keys or TLS answers there, has these namespaces, and all of them in each. */
export async function hasSearchAttributes(address: string, namespaces: readonly string[]): Promise<boolean> {
  try {
    const connection = await Connection.connect({ address, connectTimeout: 2000 });
    try {
      for (const namespace of namespaces) {
        const { customAttributes } = await connection.withDeadline(Date.now() + 2000, () =>
          connection.operatorService.listSearchAttributes({ namespace }),
        );
        if (!Object.values(SEARCH_ATTRIBUTES).every((name) => name in customAttributes)) return false;
      }
      return true;
    } finally {
      await connection.close();
    }
  } catch {
    return false;
  }
}

/** The used part of the operator service; not every kind of connection has it. */
interface OperatorService {
  listSearchAttributes(request: { namespace: string }): Promise<{ customAttributes: Record<string, unknown> }>;
  addSearchAttributes(request: { namespace: string; searchAttributes: Record<string, number> }): Promise<unknown>;
}
