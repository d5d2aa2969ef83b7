// `npm run reparse -- acc_…|all`: has the running product parse stored mail again, and prints what became of it.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

const { API_URL = `http://127.0.0.1:${process.env.PORT ?? 3000}`, DATA_DIR = '.data' } = process.env;
const wanted = process.argv.slice(2);
if (wanted.length === 0) fail('Usage: npm run reparse -- acc_…|all');
const key = process.env.API_KEY ?? process.env.BOOTSTRAP_API_KEY ?? (await keyOfDataDir());

for await (const id of wanted.includes('all') ? allAccounts() : wanted) {
  console.log(JSON.stringify(await reparse(id), null, 2));
}

/** Waits for the end of one account; a run that is under way is joined. */
async function reparse(id) {
  for (;;) {
    const body = await call('POST', `/accounts/${encodeURIComponent(id)}/reparse`);
    if (body.status === 'completed') return body;
    const { unchanged, changed, incomplete, unreadable } = body;
    console.error(`${id}: ${unchanged + changed + incomplete + unreadable} emails so far, ${changed} changed`);
  }
}

async function* allAccounts() {
  const limit = 250;
  const ids = [];
  for (let offset = 0; ; offset += limit) {
    const { data } = await call('GET', `/accounts?limit=${limit}&offset=${offset}`);
    ids.push(...data.map(({ id }) => id));
    if (data.length < limit) break;
  }
  yield* ids;
}

async function call(method, path) {
  const response = await fetch(`${API_URL}/api/v1${path}`, { method, headers: { 'X-API-KEY': key } }).catch((error) =>
    fail(`${API_URL} cannot be reached: ${error.cause?.code ?? error.message}`),
  );
  const body = await response.json();
  if (!response.ok) fail(`${path}: ${body.title}: ${body.detail}`);
  return body;
}

async function keyOfDataDir() {
  const file = join(DATA_DIR, 'bootstrap-api-key');
  return readFile(file, 'utf8').then(
    (text) => text.trim(),
    () => fail(`API_KEY is not set, and there is no ${file}`),
  );
}

function fail(message) {
  console.error(message);
  process.exit(1);
}
