import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

const { API_URL = `http://127.0.0.1:${process.env.PORT ?? 3000}`, DATA_DIR = '.data' } = process.env;
let key;

/**
 * Returns the response of the running product; on failure ends the process with a line that says that `what` failed, and
 * why.
 */
export async function call(method, path, what = path) {
  key ??= process.env.API_KEY ?? process.env.BOOTSTRAP_API_KEY ?? (await keyOfDataDir());
  const response = await fetch(`${API_URL}/api/v1${path}`, { method, headers: { 'X-API-KEY': key } }).catch((error) =>
    fail(`${API_URL} cannot be reached: ${error.cause?.code ?? error.message}`),
  );
  const body = await response.json();
  if (!response.ok) fail(`${what}: ${body.title}: ${body.detail}`);
  return body;
}

async function keyOfDataDir() {
  const file = join(DATA_DIR, 'bootstrap-api-key');
  return readFile(file, 'utf8').then(
    (text) => text.trim(),
    () => fail(`API_KEY is not set, and ${file} does not exist`),
  );
}

export function fail(message) {
  console.error(message);
  process.exit(1);
}
