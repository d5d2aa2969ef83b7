import type { ServerLogin } from '../contract/account.ts';
import { Ended, NO_BEARER } from './errors.ts';

/** What nodemailer gives to a custom login, as far as it is used here. */
export interface LoginExchange {
  authMethods: string[];
  sendCommand(command: string): Promise<{ status: number }>;
}

/** How an access token is sent, and how the client ends the exchange after the server's error in JSON. */
interface Mechanism {
  name: 'XOAUTH2' | 'OAUTHBEARER';
  response(login: ServerLogin): string;
  afterError: string;
}

/** As Google and Microsoft document it. */
const XOAUTH2: Mechanism = {
  name: 'XOAUTH2',
  response: ({ user, password }) => `user=${user}\x01auth=Bearer ${password}\x01\x01`,
  afterError: '',
};

/** RFC 7628. */
const OAUTHBEARER: Mechanism = {
  name: 'OAUTHBEARER',
  response: ({ user, password, host, port }) =>
    `n,a=${user.replaceAll('=', '=3D').replaceAll(',', '=2C')},\x01host=${host}\x01port=${port}\x01auth=Bearer ${password}\x01\x01`,
  // \x01 in base64
  afterError: 'AQ==',
};

/**
 * The login with an access token, for `customAuth` of nodemailer under both names: nodemailer itself knows XOAUTH2 only.
 * `ehlo` is the server's reply to EHLO.
 * @throws Ended NO_BEARER when the server offers neither; an Error after a refusal, whose reply nodemailer adds
 */
export async function logInWithToken(login: ServerLogin, ehlo: string, exchange: LoginExchange): Promise<void> {
  const offered = new Set(
    [...ehlo.matchAll(/^250[ -]AUTH[ =](.*)$/gim)].flatMap(([, names = '']) => names.toUpperCase().split(/[\s=]+/)),
  );
  const mechanism = [XOAUTH2, OAUTHBEARER].find(({ name }) => offered.has(name));
  if (!mechanism) throw new Ended(NO_BEARER);
  if (/[\x00-\x1f\x7f]/.test(login.user + login.password)) throw new Ended('EPROTOCOL');
  const response = Buffer.from(mechanism.response(login)).toString('base64');
  const reply = await exchange.sendCommand(`AUTH ${mechanism.name} ${response}`);
  const last = reply.status === 334 ? await exchange.sendCommand(mechanism.afterError) : reply;
  if (last.status !== 235) throw new Error('the token was refused');
}
