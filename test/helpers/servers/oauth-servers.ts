import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type AuthServer, type AuthServerOptions, startAuthServer } from './auth-server.ts';
import { type DovecotInfo, startDovecot } from './dovecot.ts';
import { mailServers } from './mail-servers.ts';
import { type PostfixInfo, startPostfix } from './postfix.ts';

/** A provider that takes access tokens: an authorization server, and a Dovecot and a Postfix that ask it about tokens. */
export interface OAuthServers {
  auth: AuthServer;
  dovecot: DovecotInfo;
  postfix: PostfixInfo;
  stop(): Promise<void>;
}

/** Starts them on free loopback ports; needs root. Passwords work, too. */
export async function startOAuthServers(options: AuthServerOptions = {}): Promise<OAuthServers> {
  const { certificate } = mailServers();
  const dir = await mkdtemp(join(tmpdir(), 'oauth-servers-'));
  // the servers switch to other users, which need access
  await chmod(dir, 0o755);
  const auth = await startAuthServer(options);
  const { introspectionUrl } = auth;
  const dovecot = await startDovecot(join(dir, 'dovecot'), { certificate, introspectionUrl });
  const postfix = await startPostfix(join(dir, 'postfix'), { certificate, ...dovecot });
  return {
    auth,
    dovecot,
    postfix,
    stop: async () => {
      await postfix.stop();
      await dovecot.stop();
      await auth.close();
      await rm(dir, { recursive: true, force: true });
    },
  };
}
