import { setTimeout as sleep } from 'node:timers/promises';
import type { Account } from '../src/contract/account.ts';
import { startTokenProxy, type TokenProxy } from '../test/helpers/fakes/token-proxy.ts';
import { addUser, type MailUser } from '../test/helpers/product/mail-user.ts';
import { type OAuthServers, startOAuthServers } from '../test/helpers/servers/oauth-servers.ts';
import type { Bounds, Figures } from './figures.ts';
import { rawImap } from '../test/helpers/servers/raw-imap.ts';
import { type Bench, type BenchMailbox, watchedMailboxes } from './ground/setup.ts';
import { figuresOf, waitsOf } from './latency.ts';

const ACCOUNTS = Number(process.env.BENCH_ACCOUNTS ?? 500);
const WITH_PASSWORD = 50;
/**
 * The life of an access token: shorter than a provider's, and long enough that all accounts together make fewer logins a minute
 * than one mail host is given (SYNC_LOGINS_PER_MINUTE).
 */
const TOKEN_SECONDS = Number(process.env.BENCH_TOKEN_SECONDS ?? 200);
const PERIODS = Number(process.env.BENCH_PERIODS ?? 4);
const PER_SECOND = 2;
const AT_A_TIME = 4;

interface Prepared {
  servers: OAuthServers;
  imap: TokenProxy;
  withToken: BenchMailbox[];
  withPassword: BenchMailbox[];
}

/** Mailboxes whose server ends every session with its access token, next to mailboxes with passwords. */
export const tokenEnds = {
  title: `${ACCOUNTS} accounts by OAuth 2.0, whose server ends each session with its token, for ${PERIODS} lives of ${TOKEN_SECONDS} s`,
  rounds: 1,
  bounds: {
    'status events': { most: 0 },
    'logins for each token': { most: 1.1 },
    'most tokens in one second, times the mean': { most: 3 },
  } satisfies Bounds,
  prepare: async (bench: Bench): Promise<Prepared> => {
    const servers = await startOAuthServers({ tokenSeconds: TOKEN_SECONDS });
    const imap = await startTokenProxy(servers.dovecot.imapPort, servers.auth.expiryOf);
    bench.alsoStop.push(imap.close, servers.stop);
    const { dovecot, postfix } = servers;
    const connect = { smtpPort: postfix.submissionPort };
    const withPassword = await watchedMailboxes(bench, WITH_PASSWORD, { dovecot, connect });
    const withToken: BenchMailbox[] = [];
    const connectNext = async () => {
      while (withToken.length < ACCOUNTS) {
        const slot = withToken.push(undefined as unknown as BenchMailbox) - 1;
        const user = await addUser({ dovecot });
        const account = await connectByToken(bench, { servers, imap }, user);
        withToken[slot] = { user, account, imap: await rawImap(user) };
      }
    };
    await Promise.all(Array.from({ length: AT_A_TIME }, connectNext));
    return { servers, imap, withToken, withPassword };
  },
  round: async (bench: Bench, prepared: Prepared): Promise<Figures> => {
    const { servers, imap, withToken, withPassword } = prepared;
    // connected one after the other: the first life spreads them
    await sleep(TOKEN_SECONDS * 1000);
    const began = Date.now();
    const before = { logins: imap.logins, ended: imap.ended };
    const statuses = () => bench.receiver.calls.filter(({ event }) => event.type.startsWith('account.status.')).length;
    const statusesBefore = statuses();
    const until = began + PERIODS * TOKEN_SECONDS * 1000;
    const stream = { folder: 'INBOX', mails: PERIODS * TOKEN_SECONDS * PER_SECOND, perSecond: PER_SECOND };
    const [byToken, byPassword] = await Promise.all([
      waitsOf(bench, { ...stream, boxes: withToken }),
      waitsOf(bench, { ...stream, boxes: withPassword }),
    ]);
    const tokens = servers.auth.requests.map(({ at }) => at).filter((at) => at >= began && at < until);
    const seconds = (until - began) / 1000;
    return {
      'status events': statuses() - statusesBefore,
      'sessions that ended with their token': imap.ended - before.ended,
      'tokens for each account': tokens.length / ACCOUNTS,
      'logins for each token': (imap.logins - before.logins) / tokens.length,
      'most tokens in one second, times the mean': mostInOneSecond(tokens) / (tokens.length / seconds),
      ...figuresOf(byToken.reported, 'APPEND to webhook by token, '),
      ...figuresOf(byPassword.reported, '  by password, '),
    };
  },
};

async function connectByToken(
  bench: Bench,
  { servers, imap }: Pick<Prepared, 'servers' | 'imap'>,
  { user }: MailUser,
): Promise<Account> {
  const { clientId: client_id, clientSecret: client_secret, tokenUrl: token_url } = servers.auth;
  const oauth2 = { refresh_token: await servers.auth.signIn(user), client_id, client_secret, token_url };
  const side = (port: number) => ({ host: '127.0.0.1', port, encryption: 'none' });
  const credentials = { user, oauth2, imap: side(imap.port), smtp: side(servers.postfix.submissionPort) };
  return bench.api.post<Account>('/auth/intent', { provider: 'imap', credentials });
}

function mostInOneSecond(times: number[]): number {
  const counts = new Map<number, number>();
  for (const at of times) counts.set(Math.floor(at / 1000), (counts.get(Math.floor(at / 1000)) ?? 0) + 1);
  return Math.max(0, ...counts.values());
}
