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
    missing = await missingIn(operatorService, namespace);
    if (missing.length === 0) return;
    await add(operatorService, namespace, missing);
    logger.info({ namespace, names: missing }, 'registered search attributes');
  } catch (err) {
    const lacking = missing.map((name) => `${name}=${searchAttributeType(name)}`);
    logger.warn({ err, namespace, names: lacking }, 'could not register search attributes; add them manually');
  }
}

/**
 * Whether the namespaces of a server without keys or TLS have all search attributes; null: no server answers there, or it
 * lacks a namespace. `adds`: registers those that a namespace lacks.
 */
export async function hasSearchAttributes(
  address: string,
  namespaces: readonly string[],
  { adds = false }: { adds?: boolean } = {},
): Promise<boolean | null> {
  try {
    const connection = await Connection.connect({ address, connectTimeout: 2000 });
    try {
      const lacking = await connection.withDeadline(Date.now() + 2000, () =>
        Promise.all(namespaces.map((namespace) => missingIn(connection.operatorService, namespace))),
      );
      if (adds) {
        for (const [index, names] of lacking.entries()) {
          if (names.length > 0) await add(connection.operatorService, namespaces[index] as string, names);
        }
      }
      return lacking.every((names) => names.length === 0);
    } finally {
      await connection.close();
    }
  } catch {
    return null;
  }
}

async function missingIn(operatorService: OperatorService, namespace: string): Promise<string[]> {
  const { customAttributes } = await operatorService.listSearchAttributes({ namespace });
  return Object.values(SEARCH_ATTRIBUTES).filter((name) => !(name in customAttributes));
}

async function add(operatorService: OperatorService, namespace: string, names: string[]): Promise<void> {
  const searchAttributes = Object.fromEntries(
    names.map((name) => [name, INDEXED_VALUE_TYPES[searchAttributeType(name)]]),
  );
  await operatorService.addSearchAttributes({ namespace, searchAttributes });
}

/** The used part of the operator service; not every kind of connection has it. */
interface OperatorService {
  listSearchAttributes(request: { namespace: string }): Promise<{ customAttributes: Record<string, unknown> }>;
  addSearchAttributes(request: { namespace: string; searchAttributes: Record<string, number> }): Promise<unknown>;
}
