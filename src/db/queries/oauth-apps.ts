import { asc, eq, sql } from 'drizzle-orm';
import type { OAuthProvider } from '../../contract/oauth.ts';
import { newId } from '../../new-id.ts';
import type { Db, Queryable, Tx } from '../driver/client.ts';
import { recordEvents } from '../outbox.ts';
import { type OAuthAppSettings, oauthApps } from '../schema/index.ts';
import type { Sealer } from './endpoints.ts';

/** What the operator registered at a provider, with its secrets. */
export interface StoredApp extends AppSettings, AppSecrets {
  id: string;
  failure: string;
  failingSince: Date | null;
  createdAt: Date;
  updatedAt: Date;
}

/** The settings of an app. */
export interface AppSettings extends OAuthAppSettings {
  provider: OAuthProvider;
  name: string;
  clientId: string;
}

export interface AppSecrets {
  clientSecret: string | null;
  /** of the service account; PEM */
  privateKey: string | null;
}

type AppRow = typeof oauthApps.$inferSelect;

const locationOf = (id: string) => ({ table: 'oauth_apps', column: 'secrets', id });

function toApp(row: AppRow, sealer: Sealer): StoredApp {
  const secrets = JSON.parse(sealer.open(locationOf(row.id), row.secrets)) as AppSecrets;
  const { id, failure, failingSince, createdAt, updatedAt, provider, name, clientId } = row;
  const own = { id, failure, failingSince, createdAt, updatedAt, name, clientId, provider: provider as OAuthProvider };
  return { ...row.settings, ...own, ...secrets };
}

function columnsOf(id: string, app: AppSettings & AppSecrets, sealer: Sealer) {
  const { provider, name, clientId, clientSecret, privateKey, ...settings } = app;
  const secrets = sealer.seal(locationOf(id), JSON.stringify({ clientSecret, privateKey }));
  return { provider, name, clientId, secrets, settings };
}

/** Saves a new app. */
export async function createApp(db: Queryable, sealer: Sealer, app: AppSettings & AppSecrets): Promise<StoredApp> {
  const id = newId('oauthApp');
  const now = new Date();
  const [row] = await db
    .insert(oauthApps)
    .values({ id, ...columnsOf(id, app, sealer), createdAt: now, updatedAt: now })
    .returning();
  return toApp(row as AppRow, sealer);
}

/** A page of apps, oldest first. */
export async function listApps(
  db: Queryable,
  sealer: Sealer,
  page: { offset: number; limit: number },
): Promise<{ data: StoredApp[]; hasMore: boolean }> {
  const rows = await db
    .select()
    .from(oauthApps)
    .orderBy(asc(oauthApps.createdAt), asc(oauthApps.id))
    .offset(page.offset)
    .limit(page.limit + 1);
  return { data: rows.slice(0, page.limit).map((row) => toApp(row, sealer)), hasMore: rows.length > page.limit };
}

/** Undefined when it does not exist. */
export async function getApp(db: Queryable, sealer: Sealer, id: string): Promise<StoredApp | undefined> {
  const [row] = await db.select().from(oauthApps).where(eq(oauthApps.id, id));
  return row && toApp(row, sealer);
}

/** Apps of one host that are looked at; an operator has a few. */
const MAX_OF_HOST = 100;

/** The apps that name that IMAP host, oldest first. */
export async function listAppsOfHost(db: Queryable, sealer: Sealer, host: string): Promise<StoredApp[]> {
  const rows = await db
    .select()
    .from(oauthApps)
    .where(sql`${oauthApps.settings} -> 'hosts' ? ${host.toLowerCase()}`)
    .orderBy(asc(oauthApps.createdAt), asc(oauthApps.id))
    .limit(MAX_OF_HOST);
  return rows.map((row) => toApp(row, sealer));
}

/**
 * Changes the settings of an app: to what `change` makes of those that it has. One that fails is `failing` until the provider
 * accepts a request of its accounts, the next of which follows at once; without accounts it is not. Undefined when it does not
 * exist.
 */
export async function changeApp(
  db: Db,
  sealer: Sealer,
  id: string,
  change: (app: StoredApp) => AppSettings & AppSecrets,
): Promise<StoredApp | undefined> {
  return db.transaction(async (tx) => {
    const [before] = await tx.select().from(oauthApps).where(eq(oauthApps.id, id)).for('update');
    if (!before) return undefined;
    const [row] = await tx
      .update(oauthApps)
      .set({
        ...columnsOf(id, change(toApp(before, sealer)), sealer),
        failure: sql`case when ${HAS_ACCOUNTS} then ${oauthApps.failure} else '' end`,
        failingSince: sql`case when ${HAS_ACCOUNTS} then ${oauthApps.failingSince} end`,
        probeAt: null,
        updatedAt: new Date(),
      })
      .where(eq(oauthApps.id, id))
      .returning();
    return row && toApp(row, sealer);
  });
}

/** `used`: accounts log in with it. */
export async function deleteApp(db: Queryable, id: string): Promise<'deleted' | 'used' | 'none'> {
  return db.transaction(async (tx) => {
    const [row] = await tx.select({ id: oauthApps.id }).from(oauthApps).where(eq(oauthApps.id, id)).for('update');
    if (!row) return 'none';
    // a separate statement: it sees what a connect stored that held the app until then
    const { rowCount } = await tx.execute(sql`
      delete from oauth_apps a where id = ${id} and not exists (select from oauth_tokens t where t.app_id = a.id)`);
    return rowCount ? 'deleted' : 'used';
  });
}

/** Keeps an app from being deleted until the transaction ends. False: it does not exist. */
export async function holdApp(tx: Tx, id: string): Promise<boolean> {
  const { rowCount } = await tx.execute(sql`select from oauth_apps where id = ${id} for key share`);
  return rowCount === 1;
}

const HAS_ACCOUNTS = sql`exists (select from oauth_tokens t where t.app_id = ${oauthApps.id})`;

/** Between two requests for all accounts of a failing app, in seconds. */
const PROBE_SECONDS = 60;

/**
 * Records that the provider refuses the app, with an event, unless it was changed since `updatedAt`: what was refused is no longer
 * what it has. True: it is failing since now.
 */
export async function markAppFailing(
  db: Db,
  { id, updatedAt }: Pick<StoredApp, 'id' | 'updatedAt'>,
  failure: string,
): Promise<boolean> {
  return db.transaction(async (tx) => {
    // no lock that a connect waits for, which has locked the account of the event
    const { rows } = await tx.execute<{ isNew: boolean }>(sql`
      with before as (select id, failing_since from oauth_apps
        where id = ${id} and updated_at = ${updatedAt.toISOString()}::timestamptz for no key update)
      update oauth_apps a set failure = ${failure}, failing_since = coalesce(a.failing_since, now()),
        probe_at = now() + make_interval(secs => ${PROBE_SECONDS})
      from before where a.id = before.id returning before.failing_since is null as "isNew"`);
    const isNew = rows[0]?.isNew ?? false;
    if (isNew) await recordAppEvent(tx, id, 'oauth_app.failing');
    return isNew;
  });
}

/** Records that the provider accepts the app, with an event. True: it was failing. */
export async function markAppWorking(db: Db, id: string): Promise<boolean> {
  return db.transaction(async (tx) => {
    const { rowCount } = await tx.execute(sql`
      update oauth_apps set failure = '', failing_since = null, probe_at = null
      where id = ${id} and failing_since is not null`);
    if (rowCount === 1) await recordAppEvent(tx, id, 'oauth_app.recovered');
    return rowCount === 1;
  });
}

/** One event of an app, in the sequence of one of its accounts; none without accounts, which nothing happens to. */
async function recordAppEvent(tx: Tx, id: string, type: 'oauth_app.failing' | 'oauth_app.recovered'): Promise<void> {
  const { rows } = await tx.execute<{ accountId: string; provider: string; name: string; failure: string }>(sql`
    select t.account_id as "accountId", a.provider, a.name, a.failure
    from oauth_apps a join oauth_tokens t on t.app_id = a.id join accounts c on c.id = t.account_id
    where a.id = ${id} and c.removed_at is null order by t.account_id limit 1`);
  const [row] = rows;
  if (!row) return;
  const { accountId, provider, name, failure } = row;
  const status = type === 'oauth_app.failing' ? 'failing' : 'ok';
  const data = { app: { id, provider, name, status, status_detail: failure } };
  await recordEvents(tx, accountId, [{ type, objectId: id, data, createdAt: new Date() }]);
}

/** Takes the next request to the provider of a failing app: one of all accounts and workers does. */
export async function takeProbe(db: Queryable, id: string): Promise<boolean> {
  const { rowCount } = await db.execute(sql`
    update oauth_apps set probe_at = now() + make_interval(secs => ${PROBE_SECONDS})
    where id = ${id} and (probe_at is null or probe_at <= now())`);
  return rowCount === 1;
}

/** The request that `takeProbe` allowed tested nothing: any account may take the next one. */
export async function returnProbe(db: Queryable, id: string): Promise<void> {
  await db.execute(sql`update oauth_apps set probe_at = null where id = ${id} and failing_since is not null`);
}
