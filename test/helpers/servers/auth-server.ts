import { generateKeyPairSync, type JsonWebKey, sign } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import Provider, { type Configuration } from 'oidc-provider';
import type { Database } from '../../../src/db/driver/client.ts';
import { type AppSecrets, type AppSettings, createApp, type StoredApp } from '../../../src/db/queries/oauth-apps.ts';
import type { Secrets } from '../../../src/security/secrets.ts';
import { AuthStore } from './auth-store.ts';
import { listenOnFreePort } from './free-port.ts';

/** What a test may answer in place of the server, for a request to its token endpoint. */
export interface ScriptedAnswer {
  status: number;
  headers?: Record<string, string>;
  body: unknown;
}

/** A request to the token endpoint. */
export interface TokenRequest {
  form: URLSearchParams;
  headers: IncomingMessage['headers'];
  at: number;
}

/** An OAuth 2.0 authorization server: oidc-provider, with a registered client and users whose address is their id. */
export interface AuthServer {
  issuer: string;
  tokenUrl: string;
  /** for Dovecot: whether a token is valid, and whose */
  introspectionUrl: string;
  clientId: string;
  clientSecret: string;
  /** requests to the token endpoint so far */
  requests: TokenRequest[];
  /** answers before the server does; undefined: the server answers */
  script: (request: TokenRequest) => ScriptedAnswer | undefined | Promise<ScriptedAnswer | undefined>;
  /** A refresh token of that user, as a sign-in would give it. */
  signIn(user: string): Promise<string>;
  /** An access token of that user. */
  accessToken(user: string): Promise<string>;
  /** When an access token expires, ms since 1970; undefined: it is not valid. */
  expiryOf(token: string): Promise<number | undefined>;
  /** Whether a sign-in of the user is in force. */
  isValid(user: string): Promise<boolean>;
  /** The user answers a sign-in on another device; undefined: with a refusal. */
  answerDevice(userCode: string, user: string | undefined): Promise<void>;
  /** the mailbox that tokens without a user open */
  appMailbox: string;
  /** Takes all tokens of a user back. */
  revoke(user: string): Promise<void>;
  /** An ID token with these claims and its signature. */
  sign(claims: object): string;
  close(): Promise<void>;
}

export interface AuthServerOptions {
  /** seconds that an access token is valid */
  tokenSeconds?: number;
  /** of the client */
  redirectUris?: string[];
  /** a free one */
  port?: number;
  /** claims of people, by their address, besides `sub` and `email`; read at each sign-in */
  people?: Record<string, { name: string; groups: string[] }>;
  /** claims are in the userinfo response, not in the ID token */
  hasThinIdTokens?: boolean;
}

const CLIENT = { clientId: 'mail-app', clientSecret: 'canary-client-secret-0123456789' };
const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code';
const SCOPE = 'openid email offline_access';

/** Starts the server on a free loopback port. A refresh token is replaced by each use; using one twice revokes the sign-in. */
export async function startAuthServer(options: AuthServerOptions = {}): Promise<AuthServer> {
  let handle: (request: IncomingMessage, response: ServerResponse) => void = () => {};
  const http = createServer((request, response) => handle(request, response));
  const port = options.port ?? (await listenOnFreePort(http));
  if (options.port !== undefined) await once(http.listen(port, '127.0.0.1'), 'listening');
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const issuer = `http://127.0.0.1:${port}`;
  const provider = new Provider(issuer, configuration(options, privateKey.export({ format: 'jwk' })));
  const serve = provider.callback();
  const grants = new Map<string, string[]>();

  async function grantOf(user: string): Promise<string> {
    const grant = new provider.Grant({ accountId: user, clientId: CLIENT.clientId });
    grant.addOIDCScope(SCOPE);
    const id = await grant.save();
    grants.set(user, [...(grants.get(user) ?? []), id]);
    return id;
  }

  async function client() {
    const found = await provider.Client.find(CLIENT.clientId);
    if (!found) throw new Error('the client is not registered');
    return found;
  }

  const findToken = async (token: string) =>
    (await provider.AccessToken.find(token)) ?? (await provider.ClientCredentials.find(token));

  const server: AuthServer = {
    issuer,
    tokenUrl: `${issuer}/token`,
    introspectionUrl: `${issuer}/for-dovecot`,
    ...CLIENT,
    requests: [],
    script: () => undefined,
    appMailbox: '',
    async signIn(user) {
      const common = { accountId: user, client: await client(), grantId: await grantOf(user), scope: SCOPE };
      return new provider.RefreshToken({ ...common, gty: 'authorization_code' }).save();
    },
    async accessToken(user) {
      const common = { accountId: user, client: await client(), grantId: await grantOf(user), scope: SCOPE };
      return new provider.AccessToken({ ...common, gty: 'authorization_code' }).save();
    },
    async answerDevice(userCode, user) {
      const code = await provider.DeviceCode.findByUserCode(userCode.replace(/\W/g, ''));
      if (!code) throw new Error('no sign-in has this code');
      const agreed = user && { accountId: user, grantId: await grantOf(user), scope: SCOPE };
      await Object.assign(code, agreed || { error: 'access_denied' }).save();
    },
    async expiryOf(token) {
      const found = await findToken(token);
      return found?.exp === undefined ? undefined : found.exp * 1000;
    },
    async isValid(user) {
      const found = await Promise.all((grants.get(user) ?? []).map((id) => provider.Grant.find(id)));
      return found.some((grant) => grant !== undefined);
    },
    async revoke(user) {
      for (const id of grants.get(user) ?? []) {
        await provider.AccessToken.revokeByGrantId(id);
        await provider.RefreshToken.revokeByGrantId(id);
      }
    },
    sign: (claims) => signJwt({ alg: 'RS256', kid: KEY_ID }, claims, (text) => sign('sha256', text, privateKey)),
    close: async () => {
      http.closeAllConnections();
      await new Promise((resolve) => http.close(resolve));
    },
  };

  async function introspect(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const token = new URLSearchParams(await bodyOf(request)).get('token') ?? '';
    const found = await findToken(token);
    const username = found && 'accountId' in found ? found.accountId : server.appMailbox;
    json(response, 200, found?.isValid ? { active: true, username } : { active: false });
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (request.url?.startsWith('/for-dovecot')) return introspect(request, response);
    if (request.url !== '/token') return void serve(request, response);
    const text = await bodyOf(request);
    const made = { form: new URLSearchParams(text), headers: request.headers, at: Date.now() };
    server.requests.push(made);
    const scripted = await server.script(made);
    if (scripted) return json(response, scripted.status, scripted.body, scripted.headers);
    // the parser of oidc-provider takes a body that was read before
    Object.assign(request, { body: Object.fromEntries(made.form) });
    void serve(request, response);
  }
  handle = (request, response) => {
    answer(request, response).catch((error: unknown) => response.destroy(error as Error));
  };
  return server;
}

/** Saves an OAuth app with the client that is registered at that server. */
export function storeApp(
  { db }: Pick<Database, 'db'>,
  secrets: Secrets,
  { issuer, tokenUrl, clientId, clientSecret }: AuthServer,
  more: Partial<AppSettings & AppSecrets> = {},
): Promise<StoredApp> {
  return createApp(db, secrets, {
    provider: 'custom',
    name: 'Test provider',
    clientId,
    clientSecret,
    privateKey: null,
    tenant: null,
    cloud: null,
    endpoints: { issuer, authorizationUrl: null, tokenUrl, revocationUrl: null, deviceUrl: null },
    scope: 'openid email offline_access',
    applicationScope: null,
    secretIn: 'body',
    hosts: ['127.0.0.1'],
    serviceAccountEmail: null,
    ...more,
  });
}

const KEY_ID = 'signs';

/** A JWT; `signature` of its first two parts. */
export function signJwt(header: object, claims: object, signature: (text: Buffer) => Buffer): string {
  const text = [header, claims].map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.');
  return `${text}.${signature(Buffer.from(text)).toString('base64url')}`;
}

function configuration(options: AuthServerOptions, key: JsonWebKey): Configuration {
  const { tokenSeconds = 3600, redirectUris = ['http://127.0.0.1/unused'], people = {} } = options;
  return {
    adapter: AuthStore,
    jwks: { keys: [{ ...key, kid: KEY_ID, alg: 'RS256', use: 'sig' }] },
    clients: [
      {
        client_id: CLIENT.clientId,
        client_secret: CLIENT.clientSecret,
        redirect_uris: redirectUris,
        grant_types: ['authorization_code', 'refresh_token', 'client_credentials', DEVICE_GRANT],
        token_endpoint_auth_method: 'client_secret_post',
      },
    ],
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ ...people[id], sub: id, email: id }) }),
    claims: { openid: ['sub'], email: ['email'], profile: ['name', 'groups'] },
    features: { revocation: { enabled: true }, clientCredentials: { enabled: true }, deviceFlow: { enabled: true } },
    conformIdTokenClaims: options.hasThinIdTokens ?? false,
    rotateRefreshToken: true,
    issueRefreshToken: () => true,
    ttl: {
      AccessToken: tokenSeconds,
      ClientCredentials: tokenSeconds,
      RefreshToken: 86_400,
      Grant: 86_400,
      Session: 86_400,
      Interaction: 3600,
      IdToken: 3600,
      AuthorizationCode: 60,
    },
  };
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks).toString('utf8');
}

function json(response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(typeof body === 'string' ? body : JSON.stringify(body));
}
