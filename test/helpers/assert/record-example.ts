import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { operationOf } from './documented.ts';

/** Characters of JSON: enough to show everything, few enough to read. */
const WANTED = 2_500;
const ITEMS = 2;
const SECRETS: Record<string, string> = { api_key: 'mbx_…', secret: 'whsec_…' };

/** An answered call. */
export interface RecordedCall {
  method: string;
  url: string;
  status: number;
  request: unknown;
  body: string;
}

/** The token of a link, a bearer secret. */
const TOKEN = /(?<=\/connect\/|\/invitation#)[\w-]{43}/g;

export const isRecording = () => process.env['RECORD_EXAMPLES'] !== undefined;

/** With RECORD_EXAMPLES=<folder>: stores the best success of each operation there; see scripts/record-examples.mjs. */
export function recordExample(document: unknown, { method, url, status, request, body }: RecordedCall): void {
  const folder = process.env['RECORD_EXAMPLES'];
  if (folder === undefined || status >= 300 || !body.startsWith('{')) return;
  const id = operationOf(document, method, url)?.operationId;
  if (id === undefined) return;
  const response = shortened(JSON.parse(body.replace(TOKEN, '…')) as unknown);
  const example = { ...(typeof request === 'object' ? { request } : {}), response };
  const path = join(folder, `${id}.json`);
  mkdirSync(folder, { recursive: true });
  if (distance(example) < distance(read(path))) writeFileSync(path, JSON.stringify(example));
}

function distance(example: unknown): number {
  return example === undefined ? Number.POSITIVE_INFINITY : Math.abs(WANTED - JSON.stringify(example).length);
}

function read(path: string): unknown {
  try {
    return JSON.parse(readFileSync(path, 'utf8'));
  } catch {
    return undefined;
  }
}

/** The first items of every list; no secrets. */
function shortened(value: unknown): unknown {
  if (Array.isArray(value)) return value.slice(0, ITEMS).map(shortened);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [
      key,
      typeof item === 'string' ? (SECRETS[key] ?? item) : shortened(item),
    ]),
  );
}
