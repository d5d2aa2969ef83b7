import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Account } from '../src/contract/account.ts';
import { startTokenProxy, type TokenProxy } from '../test/helpers/fakes/token-proxy.ts';
import { addUser, type MailUser } from '../test/helpers/product/mail-user.ts';
import { type OAuthServers, startOAuthServers } from '../test/helpers/servers/oauth-servers.ts';
import { type Bounds, type Figures, percentile } from './figures.ts';
import { benchMail, benchMessageId } from './ground/mails.ts';
import { rawImap } from './ground/raw-imap.ts';
import { type Bench, type BenchMailbox, watchedMailboxes } from './ground/setup.ts';

const ACCOUNTS = Number(process.env.BENCH_ACCOUNTS ?? 500);
const WITH_PASSWORD = 50;
/** The life of an access token. Shorter than a provider's, so that the requests of a second are enough to be counted. */
const TOKEN_SECONDS = Number(process.env.BENCH_TOKEN_SECONDS ?? 120);
const PERIODS = 4;
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
    const [byToken, byPassword] = await Promise.all([
      latencies(bench, withToken, until),
      latencies(bench, withPassword, until),
    ]);
    const tokens = servers.auth.requests.map(({ at }) => at).filter((at) => at >= began && at < until);
    const seconds = (until - began) / 1000;
    return {
      'status events': statuses() - statusesBefore,
      'sessions that ended with their token': imap.ended - before.ended,
      'tokens for each account': tokens.length / ACCOUNTS,
      'logins for each token': (imap.logins - before.logins) / tokens.length,
      'most tokens in one second, times the mean': mostInOneSecond(tokens) / (tokens.length / seconds),
      'APPEND to webhook by token, p50, ms': percentile(byToken, 0.5),
      '  by password, p50, ms': percentile(byPassword, 0.5),
      'APPEND to webhook by token, p99, ms': percentile(byToken, 0.99),
      '  by password, p99, ms': percentile(byPassword, 0.99),
      'APPEND to webhook by token, max, ms': Math.max(...byToken),
      '  by password, max, ms': Math.max(...byPassword),
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

/** Appends to the mailboxes in turn; the time until the webhook of each mail, in milliseconds. */
async function latencies(bench: Bench, boxes: BenchMailbox[], until: number): Promise<number[]> {
  const series = `tok${randomBytes(4).toString('hex')}`;
  const sent: number[] = [];
  for (const began = Date.now(); Date.now() < until; ) {
    const box = boxes[sent.length % boxes.length] as BenchMailbox;
    const mail = benchMail(series, sent.length, { to: box.user.user });
    sent.push(Date.now());
    await box.imap.append('INBOX', [mail]);
    await sleep(Math.max(0, began + (sent.length * 1000) / PER_SECOND - Date.now()));
  }
  await bench.allReported(series, sent.length, 60_000);
  return sent.map((at, number) => (bench.reportedAt(benchMessageId(series, number)) ?? Number.NaN) - at);
}

function mostInOneSecond(times: number[]): number {
  const counts = new Map<number, number>();
  for (const at of times) counts.set(Math.floor(at / 1000), (counts.get(Math.floor(at / 1000)) ?? 0) + 1);
  return Math.max(0, ...counts.values());
}
