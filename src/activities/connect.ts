import { ApplicationFailure } from '@temporalio/common';
import type { AuthIntent, ConnectIntent, ServerLogin, ServerSettings } from '../contract/account.ts';
import type { FolderChoice } from '../contract/mailbox-config.ts';
import { ApiError } from '../contract/errors.ts';
import { isId } from '../contract/ids.ts';
import {
  findConnections,
  insertAccount,
  mailboxKeyOf,
  type NewConnection,
  type StoredConnection,
  updateConnection,
} from '../db/queries/accounts.ts';
import type { Db, Tx } from '../db/driver/client.ts';
import {
  deleteIntent as deleteStoredIntent,
  intentLocation,
  linkIntent,
  readIntent,
} from '../db/access/connect-intents.ts';
import { type NewEvent, recordEvents } from '../db/outbox.ts';
import type { Autoconfig } from '../discovery/autoconfig.ts';
import { createDiscoverSources, discoverServers, type DiscoverSources } from '../discovery/discover.ts';
import { hintOfHost } from '../discovery/providers.ts';
import { type FolderSnapshot, listFoldersWithStatus, statusOf } from '../imap/list.ts';
import { type ImapSession, openSession } from '../imap/session.ts';
import { MailError, type MailErrorCode } from '../mail-wire/mail-error.ts';
import { type NewestMail, readNewest } from '../mailbox/baseline.ts';
import { chosenOf } from '../mailbox/folders/choice.ts';
import { inboxUnlisted } from '../mailbox/folders/list-pass.ts';
import { CredentialsUnreadable, openCredentials, sealCredentials } from '../mailbox/settings.ts';
import { insertBaselineFolders } from '../mailbox/store/folders.ts';
import { newId } from '../new-id.ts';
import { AppFailing, type Tokens } from '../oauth/tokens.ts';
import { isLoopback, type Outbound } from '../security/outbound.ts';
import type { Secrets } from '../security/secrets.ts';
import { LOGIN_TIMEOUT_MS, verifySmtpLogin } from '../smtp/login.ts';
import { statusEvent } from './account.ts';
import { initialSyncDaysOf, requestHistory, storedConfigOf } from './connect-config.ts';
import { createConnectTokens, grantIn, type IntentWithTokens, type Sides } from './connect-tokens.ts';
import {
  checkTexts,
  discoveredSide,
  givenSide,
  invalid,
  loginAddressOf,
  notFound,
  type SideLogin,
  type SideName,
  type StoredSettings,
  storedSide,
} from './connect-settings.ts';

export interface ConnectDeps {
  db: Db;
  secrets: Secrets;
  tokens: Tokens;
  outbound: Outbound;
  allowInsecureMail: 'never' | 'loopback' | 'always';
  /** starts the account's workflow, or makes it connect again */
  startAccount(account: { accountId: string }): Promise<void>;
  /** in place of DNS and HTTP; for tests */
  sources?: DiscoverSources;
  /** milliseconds for one login; for tests */
  loginTimeoutMs?: number;
}

/** The result of verifyMailbox. */
export interface Connected {
  accountId: string;
  /** false, or left out by a worker of an earlier version: `startAccount` has to follow */
  isStarted?: boolean;
}

export type ConnectActivities = ReturnType<typeof createConnectActivities>;

/** On servers without LIST-STATUS the counters of further folders are read later, by the watching activity. */
const BASELINE_MS = 10_000;
/** The watching activity scans older mail that has not been read by then. */
const NEWEST_MS = 4_000;

/** Activities of the `connectMailbox` workflow. */
export function createConnectActivities(deps: ConnectDeps) {
  const { db, secrets } = deps;
  const tokens = createConnectTokens(deps);
  const sources = deps.sources ?? createDiscoverSources(deps.outbound);

  /**
   * Verifies the logins in the intent and, if both work, saves the account with its folders and its event in one
   * transaction. A repetition after that saves nothing and returns the same id. `isStarted`: the account's workflow runs.
   */
  async function verifyMailbox({ intentId }: { intentId: string }): Promise<Connected> {
    const accountId = await savedAccount(intentId);
    const isStarted = await deps.startAccount({ accountId }).then(
      () => true,
      () => false,
    );
    return { accountId, isStarted };
  }

  /** @returns the account of an intent whose logins work */
  async function savedAccount(intentId: string): Promise<string> {
    const saved = await readIntent(db, intentId);
    if (!saved) throw givenUp();
    if (saved.accountId !== null) return saved.accountId;
    const intent = JSON.parse(secrets.open(intentLocation(intentId), saved.sealed)) as IntentWithTokens;
    checkTexts(intent);
    // it would open any mailbox of an app: the holder of a link signs in
    if (intent.by_link && intent.credentials.oauth2 && !intent.tokens)
      throw invalid('a link connects by a password or a sign-in');
    try {
      if (intent.sign_in) await tokens.completeSignIn(intentId, intent, intent.sign_in);
      for (;;) {
        const accountId = await connectOnce(intentId, intent);
        if (accountId) return accountId;
      }
    } catch (error) {
      if (error instanceof AppFailing) throw new ApiError('provider_rejected', error.detail, { cause: error });
      throw error;
    }
  }

  /** Deletes the intent of a failed connect with its credentials. */
  async function deleteIntent({ intentId }: { intentId: string }): Promise<void> {
    await deleteStoredIntent(db, intentId);
  }

  /** Undefined: another call connected or removed the same mailbox at the same time; connect again. */
  async function connectOnce(intentId: string, intent: IntentWithTokens): Promise<string | undefined> {
    const { stored, ...sides } = await resolveSettings(intent);
    await checkInsecure('imap', sides.imap);
    await checkInsecure('smtp', sides.smtp);
    const issued = await tokens.issue(intentId, intent, sides);
    const imap = await tokens.loginOf(sides.imap, issued, stored?.id);
    const smtp = await tokens.loginOf(sides.smtp, issued, stored?.id);
    const at = new Date();
    const session = await logInToBoth(imap, smtp);
    try {
      if (stored && intent.by_link) await proveOwner(stored, imap);
      const baseline = stored ? NO_BASELINE : await readBaseline(session, intent.config?.folders ?? null);
      const accountId = stored?.id ?? newId('account');
      const connection = connectionOf(accountId, sides);
      return await db.transaction(async (tx) => {
        const saved = stored
          ? await reconnectAccount(tx, accountId, intent, connection)
          : await addAccount(tx, accountId, intent, { connection, baseline: { ...baseline, at } });
        if (saved) await tokens.save(tx, accountId, sides, issued);
        if (saved && !(await linkIntent(tx, intentId, accountId))) throw givenUp();
        return saved ? accountId : undefined;
      });
    } finally {
      await session.end();
    }
  }

  /**
   * The settings to connect with, and the account that already has this mailbox. The holder of a link does not learn
   * which mailboxes are connected: without `account_id`, nothing stored is used, and another account's mailbox is
   * refused like an unknown one.
   * @throws ApiError invalid_parameters, not_found, already_exists
   */
  async function resolveSettings(intent: ConnectIntent) {
    const { credentials } = intent;
    const address = loginAddressOf(credentials) ?? '';
    let discovering: Promise<Autoconfig> | undefined;
    const discovered = async (side: SideName) => {
      discovering ??= discoverServers(address, sources);
      const server = (await discovering)[side];
      return server && discoveredSide(side, credentials, server);
    };
    const named = await findNamed(intent, address);
    const sideOf = async (side: SideName, stored: StoredConnection | undefined) => {
      const settings = stored && readStored(stored);
      return (
        givenSide(side, credentials, settings) ??
        (settings ? storedSide(side, credentials, settings) : await discovered(side))
      );
    };

    const imap = await sideOf('imap', named);
    if (!imap) throw notFound((await sideOf('smtp', undefined)) ? ['imap'] : ['imap', 'smtp']);
    const mailboxKey = mailboxKeyOf(imap);
    const [holder] = await findConnections(db, { mailboxKey });
    if (intent.account_id !== undefined && holder?.id !== named?.id) {
      if (holder && !intent.by_link) throw new ApiError('already_exists', 'another account holds this mailbox');
      throw invalid('account_id belongs to another mailbox: its IMAP host and user stay the same');
    }
    const smtp = await sideOf('smtp', named ?? trusted(intent, imap, holder));
    if (!smtp) throw notFound(['smtp']);
    return { imap, smtp, stored: holder };
  }

  /**
   * The account that the caller names: by its id, or by a login address without a server. An address is named by those
   * who connected it, so its server gets no password that it does not have.
   */
  async function findNamed(intent: ConnectIntent, address: string): Promise<StoredConnection | undefined> {
    const { account_id: id, credentials } = intent;
    if (id !== undefined) {
      const [named] = isId('account', id) ? await findConnections(db, { id }) : [];
      if (!named) throw new ApiError('not_found', 'no account has this id');
      return named;
    }
    if (intent.by_link || credentials.imap || credentials.oauth2 || !address.includes('@')) return undefined;
    const [named, ...others] = await findConnections(db, { userId: address.toLowerCase() });
    if (!named || others.length > 0) return undefined;
    return credentials.password === undefined || isStored(named, credentials.password) ? named : undefined;
  }

  /**
   * The account that has the mailbox, if its SMTP server may get the caller's password: the IMAP server that gets it is the
   * stored one, or it is the stored password.
   */
  function trusted({ by_link }: ConnectIntent, imap: SideLogin, holder: StoredConnection | undefined) {
    if (!holder || by_link) return undefined;
    return isSameServer(imap, holder.imap) || ('password' in imap && isStored(holder, imap.password))
      ? holder
      : undefined;
  }

  /**
   * Has the stored IMAP server accept the login of a link's holder, who would point the account at another port: their own server
   * may accept anything. A new password is not sent to a server without TLS, which anyone on its host can run.
   * @throws MailError
   */
  async function proveOwner(stored: StoredConnection, imap: ServerLogin): Promise<void> {
    if (isSameServer(imap, stored.imap)) return;
    const { password, token } = imap;
    if (stored.imap.encryption === 'NONE' && !isStored(stored, password)) throw notProven('invalid_credentials');
    const timeoutMs = deps.loginTimeoutMs ?? LOGIN_TIMEOUT_MS;
    const login = { ...stored.imap, password, ...(token ? { token } : {}) };
    const session = await openSession(login, { outbound: deps.outbound, connectTimeoutMs: timeoutMs }).catch(
      (error: unknown) => {
        throw error instanceof MailError ? notProven(error.code, error) : error;
      },
    );
    await session.end();
  }

  function isStored(stored: StoredConnection, password: string): boolean {
    return readStored(stored).credentials?.imapPassword === password;
  }

  function readStored(stored: StoredConnection): StoredSettings {
    const { id, userId, imap, smtp, credentials } = stored;
    try {
      return { userId, imap, smtp, credentials: openCredentials(secrets, id, credentials) };
    } catch (error) {
      // Sealed with a key that is no longer configured: a reconnect with passwords repairs this.
      if (error instanceof CredentialsUnreadable) return { userId, imap, smtp, credentials: undefined };
      throw error;
    }
  }

  /** @throws ApiError invalid_parameters where a connection without TLS is not allowed */
  async function checkInsecure(side: SideName, { encryption, host }: ServerSettings): Promise<void> {
    if (encryption !== 'NONE' || deps.allowInsecureMail === 'always') return;
    if (deps.allowInsecureMail === 'loopback') {
      const addresses = await deps.outbound.resolve(host).catch(() => []);
      if (addresses.length > 0 && addresses.every(({ address }) => isLoopback(address))) return;
    }
    throw invalid(`credentials.${side}.encryption must not be none: ALLOW_INSECURE_MAIL does not allow it here`);
  }

  /** Logs in to both sides in parallel. @returns the IMAP session @throws MailError that names each failed side */
  async function logInToBoth(imap: ServerLogin, smtp: ServerLogin): Promise<ImapSession> {
    const timeoutMs = deps.loginTimeoutMs ?? LOGIN_TIMEOUT_MS;
    const { outbound } = deps;
    const [imapLogin, smtpLogin] = await Promise.allSettled([
      openSession(imap, { outbound, connectTimeoutMs: timeoutMs }),
      verifySmtpLogin(smtp, { outbound, timeoutMs }),
    ]);
    if (imapLogin.status === 'fulfilled' && smtpLogin.status === 'fulfilled') return imapLogin.value;
    if (imapLogin.status === 'fulfilled') await imapLogin.value.end();
    throw worstOf([
      { host: imap.host, result: imapLogin },
      { host: smtp.host, result: smtpLogin },
    ]);
  }

  function connectionOf(accountId: string, sides: Sides): NewConnection {
    const [imap, smtp] = [sides.imap, sides.smtp].map(({ host, port, user, encryption }) => ({
      host,
      port,
      user,
      encryption,
    })) as [ServerSettings, ServerSettings];
    const passwordOf = (side: SideLogin) => ('password' in side ? side.password : undefined);
    const credentials = sealCredentials(secrets, accountId, {
      imapPassword: passwordOf(sides.imap),
      smtpPassword: passwordOf(sides.smtp),
      oauth2: grantIn(sides),
    });
    return { mailboxKey: mailboxKeyOf(imap), imap, smtp, credentials };
  }

  return { verifyMailbox, deleteIntent };
}

/** Whether a login at one of the servers is a login at the other. User names may differ in case only on some servers. */
function isSameServer(one: ServerSettings, other: ServerSettings): boolean {
  return one.port === other.port && one.encryption === other.encryption && one.user === other.user;
}

function notProven(code: MailErrorCode, cause?: MailError): MailError {
  const reason = cause ? `: ${cause.detail}` : '';
  return new MailError(
    code,
    'imap',
    `another port, encryption or user is stored for this mailbox, and must accept the login, too${reason}`,
    { cause },
  );
}

/** Saves a new account with its folders; false: another call has connected its mailbox. */
async function addAccount(
  tx: Tx,
  accountId: string,
  intent: AuthIntent,
  { connection, baseline }: { connection: NewConnection; baseline: Baseline & { at: Date } },
): Promise<boolean> {
  const login = loginAddressOf(intent.credentials) ?? connection.imap.user;
  const { at } = baseline;
  const account = await insertAccount(tx, {
    ...connection,
    id: accountId,
    userId: login.toLowerCase(),
    name: intent.name ?? login,
    initialSyncDays: initialSyncDaysOf(intent),
    ...storedConfigOf(intent),
    at,
  });
  if (!account) return false;
  await insertBaselineFolders(tx, accountId, baseline, at);
  await requestHistory(tx, accountId, intent, at);
  const data = { account, ...stateOf(intent) };
  await recordEvents(tx, accountId, [{ type: 'account.add', objectId: accountId, data, createdAt: new Date() }]);
  return true;
}

/** Saves the new settings of an account; false: it has been removed. */
async function reconnectAccount(
  tx: Tx,
  accountId: string,
  intent: AuthIntent,
  connection: NewConnection,
): Promise<boolean> {
  const initialSyncDays = initialSyncDaysOf(intent);
  const change = await updateConnection(tx, accountId, {
    ...{ ...connection, name: intent.name, initialSyncDays },
    ...storedConfigOf(intent),
  });
  if (!change) return false;
  const { account, previous } = change;
  const createdAt = new Date();
  await requestHistory(tx, accountId, intent, createdAt);
  const reconnected = { account, ...stateOf(intent) };
  const events: NewEvent[] = [{ type: 'account.reconnect', objectId: accountId, data: reconnected, createdAt }];
  if (previous !== 'running')
    events.push(statusEvent(accountId, { status: 'running', previous, detail: '' }, createdAt));
  await recordEvents(tx, accountId, events);
  return true;
}

function stateOf({ state }: AuthIntent): { state?: string } {
  return state === undefined ? {} : { state };
}

/** The contents of the mailbox when it is connected. */
interface Baseline {
  folders: FolderSnapshot[];
  newest: Map<string, NewestMail>;
}

const NO_BASELINE: Baseline = { folders: [], newest: new Map() };

async function readBaseline(session: ImapSession, choice: FolderChoice | null): Promise<Baseline> {
  const until = performance.now() + BASELINE_MS;
  let listsInbox = true;
  const folders = await listFoldersWithStatus(session, {
    choose: (listed) => {
      if (listed.length === 0) throw new MailError('provider_error', 'imap', 'the IMAP server lists no folders');
      listsInbox = listed.some(({ role, selectable }) => role === 'INBOX' && selectable);
      return chosenOf(choice, listed);
    },
    wanted: () => performance.now() < until,
  });
  // without a baseline, all mail in it would be new
  if (!listsInbox && (await statusOf(session, 'INBOX'))) throw inboxUnlisted();
  return { folders, newest: await readNewest(session, folders, performance.now() + NEWEST_MS) };
}

/** One error for both sides, with the details of both: a refused login before an unreachable server, IMAP before SMTP. */
function worstOf(logins: { host: string; result: PromiseSettledResult<unknown> }[]): unknown {
  const failed = logins.flatMap(({ host, result }) =>
    result.status === 'rejected' ? [{ host, error: result.reason as unknown }] : [],
  );
  const mailErrors = failed.flatMap(({ host, error }) => (error instanceof MailError ? [{ host, error }] : []));
  if (mailErrors.length < failed.length) return failed.find(({ error }) => !(error instanceof MailError))?.error;
  const worst = mailErrors.find(({ error }) => error.code === 'invalid_credentials') ?? mailErrors[0];
  if (!worst) return new Error('no side failed');
  const { code, side } = worst.error;
  const details = mailErrors.map(({ error }) => error.detail);
  const hint = code === 'invalid_credentials' ? hintOfHost(worst.host) : undefined;
  return new MailError(code, side, [...details, ...(hint ? [hint] : [])].join('; '), { cause: worst.error });
}

/** The response said that nothing was saved: nothing may be saved after it. */
function givenUp(): ApplicationFailure {
  return ApplicationFailure.nonRetryable('the request was already answered', 'provider_error');
}
