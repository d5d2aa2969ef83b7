import { readFile } from 'node:fs/promises';
import { isIPv6 } from 'node:net';
import { join } from 'node:path';

/** The value of the first of these settings that is set; an empty one is not. */
const setting = (...names) => names.map((name) => process.env[name]?.trim()).find(Boolean);

const API_URL = setting('API_URL') ?? `http://${hostOf(setting('HOST') ?? '127.0.0.1')}:${setting('PORT') ?? 3000}`;
let key;

/** An address that a server listens on, as a URL names it. */
function hostOf(address) {
  if (address === '0.0.0.0') return '127.0.0.1';
  if (address === '::') return '[::1]';
  return isIPv6(address) ? `[${address}]` : address;
}

/**
 * Returns the response of the running product; on failure ends the process with a line that says that `what` failed, and
 * why.
 */
export async function call(method, path, what = path) {
  key ??= setting('API_KEY', 'BOOTSTRAP_API_KEY') ?? (await keyOfDataDir());
  const response = await fetch(`${API_URL}/api/v1${path}`, { method, headers: { 'X-API-KEY': key } }).catch((error) =>
    fail(`${API_URL} cannot be reached: ${error.cause?.code ?? error.message}`),
  );
  // that of a proxy is no JSON
  const body = await response.json().catch(() => undefined);
  if (body === undefined) fail(`${what}: ${API_URL} responded with ${response.status} and no JSON`);
  if (!response.ok) fail(`${what}: ${body.title}: ${body.detail}`);
  return body;
}

async function keyOfDataDir() {
  const file = join(setting('DATA_DIR') ?? '.data', 'bootstrap-api-key');
  return readFile(file, 'utf8').then(
    (text) => text.trim(),
    () => fail(`API_KEY is not set, and ${file} does not exist`),
  );
}

export function fail(message) {
  console.error(message);
  process.exit(1);
}
