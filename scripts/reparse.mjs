// `npm run reparse -- acc_…|all`: makes the running product reparse stored mail, and prints the results.
import { call, fail } from './running-product.mjs';

const wanted = process.argv.slice(2);
if (wanted.length === 0) fail('Usage: npm run reparse -- acc_…|all');

for await (const id of wanted.includes('all') ? allAccounts() : wanted) {
  console.log(JSON.stringify(await reparse(id), null, 2));
}

/** Waits until an account is reparsed; joins a running reparse. */
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
