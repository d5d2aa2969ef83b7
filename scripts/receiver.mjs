// `node scripts/receiver.mjs SECRET [PORT]`: a webhook endpoint that prints its calls and whether they are genuine.
import { createHmac, timingSafeEqual } from 'node:crypto';
import { createServer } from 'node:http';
import { buffer } from 'node:stream/consumers';

const [secret = '', port = '4000'] = process.argv.slice(2);

/** The signature covers exactly the bytes of the body; the key is the whole secret, `whsec_` included. */
function isGenuine(body, signature = '') {
  const expected = Buffer.from(`sha256=${createHmac('sha256', secret).update(body).digest('hex')}`);
  const given = Buffer.from(signature);
  return given.length === expected.length && timingSafeEqual(given, expected);
}

const server = createServer(async (request, response) => {
  const body = await buffer(request);
  const signature = request.headers['x-email-engine-signature'];
  const verdict = isGenuine(body, signature) ? 'genuine' : 'FORGED';
  console.log(`\n${request.headers['x-email-engine-event']} ${signature} (${verdict})\n${body}`);
  response.end();
});
server.listen(Number(port), '127.0.0.1', () => console.log(`waiting for calls on http://127.0.0.1:${port}`));
