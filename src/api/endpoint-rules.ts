import { validateHeaderName, validateHeaderValue } from 'node:http';
import type { Header } from '../contract/email.ts';
import { ApiError } from '../contract/errors.ts';
import { isId } from '../contract/ids.ts';
import { isReservedHeader } from '../contract/webhook.ts';
import { knownAccountIds } from '../db/queries/accounts.ts';
import type { Queryable } from '../db/driver/client.ts';
import { type Outbound, OutboundRefused, OutboundUnresolved } from '../security/outbound.ts';

/** Bytes of a header's name and value together. */
const MAX_HEADER_BYTES = 4096;

/**
 * Checks what the schema of an endpoint cannot. `stored`: the endpoint before the change; its accounts may have been
 * removed since, and it may keep them. @throws ApiError `invalid_parameters`
 */
export async function checkEndpoint(
  endpoint: { url?: string; headers?: Header[]; account_ids?: string[] },
  deps: { db: Queryable; outbound: Outbound },
  stored: { account_ids: string[] } = { account_ids: [] },
): Promise<void> {
  endpoint.headers?.forEach(checkHeader);
  if (endpoint.account_ids) await checkAccounts('account_ids', endpoint.account_ids, deps.db, stored.account_ids);
  if (endpoint.url !== undefined) await checkUrl(endpoint.url, deps.outbound);
}

function invalid(detail: string): ApiError {
  return new ApiError('invalid_parameters', detail);
}

function checkHeader({ name, value }: Header, index: number): void {
  const field = `headers.${index}`;
  if (isReservedHeader(name)) throw invalid(`${field}.name is reserved for this service`);
  try {
    validateHeaderName(name);
    validateHeaderValue(name, value);
  } catch {
    throw invalid(`${field} is not a valid HTTP header`);
  }
  if (Buffer.byteLength(name) + Buffer.byteLength(value) > MAX_HEADER_BYTES) {
    throw invalid(`${field} is longer than ${MAX_HEADER_BYTES} bytes`);
  }
}

/** Checks that every id belongs to an account, or is one of `kept`. @throws ApiError `invalid_parameters`, naming the field */
export async function checkAccounts(
  field: string,
  ids: string[],
  db: Queryable,
  kept: readonly string[] = [],
): Promise<void> {
  const existing = await knownAccountIds(
    db,
    ids.filter((id) => isId('account', id)),
  );
  const unknown = ids.findIndex((id) => !existing.has(id) && !kept.includes(id));
  if (unknown >= 0) throw invalid(`${field}.${unknown} is not the id of an account`);
}

async function checkUrl(text: string, outbound: Outbound): Promise<void> {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:') throw invalid('url must begin with http:// or https://');
  try {
    await outbound.resolve(url.hostname);
  } catch (error) {
    if (error instanceof OutboundRefused) throw invalid(`url: ${error.message}`);
    if (!(error instanceof OutboundUnresolved)) throw error;
    // a name without an address may get one later; each call resolves it again
    if (error.reason === 'invalid') throw invalid(`url: ${error.message}`);
  }
}
