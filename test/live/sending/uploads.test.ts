import { randomBytes } from 'node:crypto';
import { request } from 'node:http';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Email } from '../../../src/contract/email.ts';
import type { DraftResult, EmailSent, Upload } from '../../../src/contract/sending.ts';
import { emailOf } from '../../helpers/fakes/receiver.ts';
import { type ConnectedUser, connectUser, type OwnLive, startLive } from '../../helpers/product/live.ts';
import { waitFor } from '../../helpers/assert/wait.ts';

/** A file that is uploaded in parts while the API is killed, and what readers of mail with it get. */

const MiB = 1024 * 1024;
/** as large as files of one email may be */
const FILE = randomBytes(25 * MiB);

let live: OwnLive;
let anna: ConnectedUser;
let bea: ConnectedUser;
beforeAll(async () => {
  live = await startLive({ STORAGE_ENCRYPTION: 'true' });
  [anna, bea] = await Promise.all([connectUser(live), connectUser(live)]);
}, 120_000);
afterAll(() => live?.close());

const path = (rest: string) => `/${anna.account.id}${rest}`;
const rangeOf = (from: number, until: number) => ({ 'Content-Range': `bytes ${from}-${until - 1}/${FILE.length}` });

async function sendPart(id: string, from: number, until: number): Promise<Upload> {
  const answer = await fetch(`${live.api.base}/api/v1/uploads/${id}`, {
    method: 'PATCH',
    headers: { 'X-API-KEY': live.api.key, ...rangeOf(from, until) },
    body: new Uint8Array(FILE.subarray(from, until)),
  });
  return (await answer.json()) as Upload;
}

async function upload(name: string, body: Buffer): Promise<string> {
  const answer = await fetch(`${live.api.base}/api/v1/uploads?filename=${name}`, {
    method: 'POST',
    headers: { 'X-API-KEY': live.api.key },
    body: new Uint8Array(body),
  });
  return ((await answer.json()) as Upload).id;
}

const subject = (wanted: string) =>
  bea.event('email.new', (call) => emailOf(call).subject === wanted, { timeoutMs: 60_000 }).then(emailOf);
async function filesOf({ account_id, id, attachments }: Email): Promise<[string, Buffer][]> {
  return Promise.all(
    attachments.map(async (file): Promise<[string, Buffer]> => {
      const answer = await live.api.request('GET', `/${account_id}/emails/${id}/attachments/${file.id}`);
      return [file.name, Buffer.from(await answer.arrayBuffer())];
    }),
  );
}

let id: string;

test('a file in parts survives a kill of the API in the middle of a part', async () => {
  ({ id } = await live.api.post<Upload>(`/uploads?filename=film.bin&size=${FILE.length}`));
  await sendPart(id, 0, 5 * MiB);
  const sent = request(`${live.api.base}/api/v1/uploads/${id}`, {
    method: 'PATCH',
    headers: { 'X-API-KEY': live.api.key, 'Content-Length': 20 * MiB, ...rangeOf(5 * MiB, 25 * MiB) },
  }).on('error', () => {});
  sent.write(FILE.subarray(5 * MiB, 16 * MiB));
  const received = async () => (await live.api.get<Upload>(`/uploads/${id}`)).received;
  await waitFor(async () => (await received()) > 10 * MiB);
  await live.product.restartServer();
  sent.destroy();
  const from = await received();
  expect(from).toBeGreaterThan(10 * MiB);
  expect(from).toBeLessThan(FILE.length);
  expect(await sendPart(id, from, FILE.length)).toMatchObject({ status: 'complete', received: FILE.length });
}, 120_000);

test('it is the file of a draft, byte for byte', async () => {
  const { id: draftId } = await live.api.post<DraftResult>(path('/drafts'), {
    subject: 'The film',
    attachments: [{ upload_id: id }],
  });
  await live.api.delete(`/uploads/${id}`);
  const [[name, bytes] = ['', Buffer.alloc(0)]] = await filesOf(await live.api.get<Email>(path(`/drafts/${draftId}`)));
  expect([name, bytes.equals(FILE)]).toEqual(['film.bin', true]);
}, 120_000);

test('readers get the bytes of uploads, sent or from a changed draft, also when these are deleted', async () => {
  const to = [{ email: bea.user.user }];
  const photo = FILE.subarray(0, 5 * MiB + 1);
  const [photoId, menuId] = [await upload('photo.bin', photo), await upload('menu.txt', Buffer.from('Soup'))];
  const [both, twice] = [
    [photoId, menuId],
    [menuId, menuId],
  ].map((ids) => ids.map((one) => ({ upload_id: one })));
  await live.api.post<EmailSent>(path('/emails/send'), { to, subject: 'Both', attachments: both });
  const draft = await live.api.post<DraftResult>(path('/drafts'), { to, subject: 'Twice', attachments: both });
  const changed = await live.api.patch<DraftResult>(path(`/drafts/${draft.id}`), { attachments: twice });
  for (const one of [photoId, menuId]) await live.api.delete(`/uploads/${one}`);
  await live.api.post(path(`/drafts/${changed.id}/send`));
  const files = new Map(await filesOf(await subject('Both')));
  expect([...files.keys()].sort()).toEqual(['menu.txt', 'photo.bin']);
  expect(files.get('photo.bin')?.equals(photo)).toBe(true);
  expect((await filesOf(await subject('Twice'))).map(([name, text]) => [name, String(text)])).toEqual([
    ['menu.txt', 'Soup'],
    ['menu.txt', 'Soup'],
  ]);
}, 120_000);

test('a call with an Idempotency-Key is the same send when its upload is gone', async () => {
  const own = await upload('a.txt', Buffer.from('once'));
  const body = { to: [{ email: bea.user.user }], subject: 'Once', attachments: [{ upload_id: own }] };
  const send = () => live.api.request('POST', path('/emails/send'), body, { 'Idempotency-Key': 'once' });
  const first = await send();
  await live.api.delete(`/uploads/${own}`);
  const again = await send();
  expect([again.status, await again.json()]).toEqual([200, await first.json()]);
  expect((await filesOf(await subject('Once'))).map(([name, text]) => [name, String(text)])).toEqual([
    ['a.txt', 'once'],
  ]);
});
