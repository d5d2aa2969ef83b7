// `npm run verify -- acc_…`: has the running product compare an account with its mailbox, and prints what it found.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

const { API_URL = `http://127.0.0.1:${process.env.PORT ?? 3000}`, DATA_DIR = '.data' } = process.env;
const ids = process.argv.slice(2);
if (ids.length === 0) fail('Usage: npm run verify -- acc_…');
const key = process.env.API_KEY ?? process.env.BOOTSTRAP_API_KEY ?? (await keyOfDataDir());

let isWrong = false;
for (const id of ids) {
  const found = await verify(id);
  console.log(JSON.stringify(found, null, 2));
  isWrong ||= found.left > 0;
}
process.exitCode = isWrong ? 1 : 0;

async function verify(id) {
  for (;;) {
    const response = await fetch(`${API_URL}/api/v1/accounts/${encodeURIComponent(id)}/verify`, {
      method: 'POST',
      headers: { 'X-API-KEY': key },
    }).catch((error) => fail(`${API_URL} cannot be reached: ${error.cause?.code ?? error.message}`));
    const body = await response.json();
    if (!response.ok) fail(`${id}: ${body.title}: ${body.detail}`);
    if (body.status === 'completed') return body;
  }
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
