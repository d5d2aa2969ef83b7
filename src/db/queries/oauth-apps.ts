import { asc, eq, sql } from 'drizzle-orm';
import type { OAuthProvider } from '../../contract/oauth.ts';
import { newId } from '../../new-id.ts';
import type { Queryable } from '../driver/client.ts';
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

/** The app that the connect page offers for mailboxes on that IMAP host: the oldest one that names it. */
export async function findAppOfHost(db: Queryable, sealer: Sealer, host: string): Promise<StoredApp | undefined> {
  const [row] = await db
    .select()
    .from(oauthApps)
    .where(sql`${oauthApps.settings} -> 'hosts' ? ${host.toLowerCase()}`)
    .orderBy(asc(oauthApps.createdAt), asc(oauthApps.id))
    .limit(1);
  return row && toApp(row, sealer);
}

/** Replaces the settings of an app, which is not failing from then on until it does again. */
export async function replaceApp(
  db: Queryable,
  sealer: Sealer,
  id: string,
  app: AppSettings & AppSecrets,
): Promise<StoredApp | undefined> {
  const [row] = await db
    .update(oauthApps)
    .set({ ...columnsOf(id, app, sealer), ...WORKING, updatedAt: new Date() })
    .where(eq(oauthApps.id, id))
    .returning();
  return row && toApp(row, sealer);
}

/** `used`: accounts log in with it. */
export async function deleteApp(db: Queryable, id: string): Promise<'deleted' | 'used' | 'none'> {
  const { rowCount } = await db.execute(sql`
    delete from oauth_apps a where id = ${id} and not exists (select from oauth_tokens t where t.app_id = a.id)`);
  if (rowCount) return 'deleted';
  const [row] = await db.select({ id: oauthApps.id }).from(oauthApps).where(eq(oauthApps.id, id));
  return row ? 'used' : 'none';
}

const WORKING = { failure: '', failingSince: null, probeAt: null } as const;

/** Between two requests for all accounts of a failing app, in seconds. */
const PROBE_SECONDS = 60;

/** Records that the provider refuses the app. True: it is failing since now. */
export async function markAppFailing(db: Queryable, id: string, failure: string): Promise<boolean> {
  const { rows } = await db.execute<{ isNew: boolean }>(sql`
    with before as (select id, failing_since from oauth_apps where id = ${id} for update)
    update oauth_apps a set failure = ${failure}, failing_since = coalesce(a.failing_since, now()),
      probe_at = now() + make_interval(secs => ${PROBE_SECONDS})
    from before where a.id = before.id returning before.failing_since is null as "isNew"`);
  return rows[0]?.isNew ?? false;
}

/** Records that the provider accepts the app. True: it was failing. */
export async function markAppWorking(db: Queryable, id: string): Promise<boolean> {
  const { rowCount } = await db.execute(sql`
    update oauth_apps set failure = '', failing_since = null, probe_at = null where id = ${id} and failing_since is not null`);
  return rowCount === 1;
}

/** Takes the next request to the provider of a failing app: one of all accounts and workers does. */
export async function takeProbe(db: Queryable, id: string): Promise<boolean> {
  const { rowCount } = await db.execute(sql`
    update oauth_apps set probe_at = now() + make_interval(secs => ${PROBE_SECONDS})
    where id = ${id} and (probe_at is null or probe_at <= now())`);
  return rowCount === 1;
}

/** How many apps are failing. */
export async function countFailingApps(db: Queryable): Promise<number> {
  return db.$count(oauthApps, sql`failing_since is not null`);
}
