// `npm run verify -- acc_…`: makes the running product compare an account with its mailbox, and prints the result.
import { call, fail } from './running-product.mjs';

const ids = process.argv.slice(2);
if (ids.length === 0) fail('Usage: npm run verify -- acc_…');

let isWrong = false;
for (const id of ids) {
  const found = await verify(id);
  console.log(JSON.stringify(found, null, 2));
  isWrong ||= found.left > 0;
}
process.exitCode = isWrong ? 1 : 0;

async function verify(id) {
  for (;;) {
    const body = await call('POST', `/accounts/${encodeURIComponent(id)}/verify`, id);
    if (body.status === 'completed') return body;
  }
}
