import { and, eq, isNull } from 'drizzle-orm';
import type { CreateDeviceSignIn, DeviceSignIn } from '../../contract/oauth.ts';
import type { Queryable } from '../driver/client.ts';
import type { Sealer } from '../queries/endpoints.ts';
import { deviceSignIns } from '../schema/index.ts';

/*
 * A sign-in of an owner on another device (RFC 8628):
 *
 * waiting → connected: the owner agreed, and the mail servers accepted the login
 *         → failed: the owner or the provider refused, or a mail server did
 *         → expired: none of them in time
 */

/** What a sign-in began with; sealed. */
export interface DeviceRequest {
  deviceCode: string;
  userCode: string;
  verificationUri: string;
  verificationUriComplete: string | null;
  intervalS: number;
  mailbox: CreateDeviceSignIn;
}

export interface StoredDeviceSignIn {
  id: string;
  appId: string;
  request: DeviceRequest;
  intentId: string | null;
  accountId: string | null;
  failure: string;
  createdAt: Date;
  expiresAt: Date;
}

const locationOf = (id: string) => ({ table: 'device_sign_ins', column: 'request', id });

/** Stores a sign-in that begins now, unless one with its id is stored. */
export async function saveDeviceSignIn(
  db: Queryable,
  sealer: Sealer,
  { request, ...row }: Pick<StoredDeviceSignIn, 'id' | 'appId' | 'request' | 'createdAt' | 'expiresAt'>,
): Promise<void> {
  const sealed = sealer.seal(locationOf(row.id), JSON.stringify(request));
  await db
    .insert(deviceSignIns)
    .values({ ...row, request: sealed })
    .onConflictDoNothing();
}

/** Undefined when it does not exist. */
export async function getDeviceSignIn(
  db: Queryable,
  sealer: Sealer,
  id: string,
): Promise<StoredDeviceSignIn | undefined> {
  const [row] = await db.select().from(deviceSignIns).where(eq(deviceSignIns.id, id));
  return row && { ...row, request: JSON.parse(sealer.open(locationOf(id), row.request)) as DeviceRequest };
}

/** The owner agreed: the intent has the tokens. In the transaction that stores it. */
export async function markAgreed(tx: Queryable, id: string, intentId: string): Promise<void> {
  await tx.update(deviceSignIns).set({ intentId }).where(eq(deviceSignIns.id, id));
}

/** Ends a sign-in: with the connected account, or with the reason why it failed. */
export async function endDeviceSignIn(
  db: Queryable,
  id: string,
  end: { accountId: string } | { failure: string },
): Promise<void> {
  await db
    .update(deviceSignIns)
    .set(end)
    .where(and(eq(deviceSignIns.id, id), isNull(deviceSignIns.accountId)));
}

/** A sign-in as its creator sees it. */
export function toDeviceSignIn(row: StoredDeviceSignIn): DeviceSignIn {
  const { userCode, verificationUri, verificationUriComplete } = row.request;
  return {
    object: 'DeviceSignIn',
    id: row.id,
    app_id: row.appId,
    status: statusOf(row),
    status_detail: row.failure,
    user_code: userCode,
    verification_uri: verificationUri,
    verification_uri_complete: verificationUriComplete,
    account_id: row.accountId,
    created_at: row.createdAt.toISOString(),
    expires_at: row.expiresAt.toISOString(),
  };
}

const VERIFIED_WITHIN_MS = 10 * 60_000;

function statusOf({ accountId, failure, intentId, expiresAt }: StoredDeviceSignIn): DeviceSignIn['status'] {
  if (accountId !== null) return 'connected';
  if (failure !== '') return 'failed';
  // once the owner has agreed, the logins are verified, unless the run was ended from outside
  const endsAt = expiresAt.getTime() + (intentId === null ? 0 : VERIFIED_WITHIN_MS);
  return endsAt <= Date.now() ? 'expired' : 'waiting';
}
