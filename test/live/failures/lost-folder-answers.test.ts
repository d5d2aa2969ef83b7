import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Folder } from '../../../src/contract/folder.ts';
import { type Connected, connectLogin, type Live, joinLive } from '../../helpers/product/live.ts';
import { addUser } from '../../helpers/product/mail-user.ts';
import { startTappedProxy, type TappedProxy } from '../../helpers/fakes/tapped-proxy.ts';
import { startTcpProxy, type TcpProxy } from '../../helpers/fakes/tcp-proxy.ts';

/** The provider creates or renames a folder, and the line breaks before it says so. */

let live: Live;
let line: TcpProxy;
let tap: TappedProxy;
let eve: Connected;
/** the command whose answer is lost */
let lost: RegExp | undefined;

beforeAll(async () => {
  live = await joinLive();
  const user = await addUser();
  line = await startTcpProxy(user.imapPort);
  let isLost = false;
  tap = await startTappedProxy(line.port, ({ from, text }) => {
    if (from === 'client' && lost?.test(text)) isLost = true;
    if (from === 'client' || !isLost) return undefined;
    isLost = false;
    lost = undefined;
    line.cut();
    return new Promise<void>(() => {});
  });
  eve = await connectLogin(live, { ...user, imapPort: tap.port });
}, 120_000);
afterAll(async () => {
  await live?.close();
  await tap?.close();
  await line?.close();
});

const url = (id = '') => `/${eve.account.id}/folders${id && `/${id}`}`;
const request = async (method: string, path: string, body: object) => {
  const response = await live.api.request(method, path, body);
  return { status: response.status, body: (await response.json()) as Folder };
};

describe('when the answer of the provider is lost', () => {
  test('the next call finds a created folder', async () => {
    lost = /CREATE/;
    expect((await request('POST', url(), { name: 'Created' })).status).toBe(502);
    line.restore();
    const { status, body } = await request('POST', url(), { name: 'Created' });
    expect(status).toBe(201);
    expect((await live.api.folders(eve.account.id)).filter(({ name }) => name === 'Created')).toEqual([body]);
  }, 60_000);

  test('the next call finds a renamed folder', async () => {
    const { id } = (await request('POST', url(), { name: 'Before' })).body;
    lost = /RENAME/;
    expect((await request('PATCH', url(id), { name: 'After' })).status).toBe(502);
    line.restore();
    expect(await request('PATCH', url(id), { name: 'After' })).toMatchObject({ status: 200, body: { id } });
    const names = (await live.api.folders(eve.account.id)).map(({ name }) => name);
    expect(names).toContain('After');
    expect(names).not.toContain('Before');
  }, 60_000);
});
