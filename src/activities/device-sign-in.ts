import type { CreateDeviceSignIn } from '../contract/oauth.ts';
import { ApiError } from '../contract/errors.ts';
import { intentLocation, saveIntent, deleteIntent as deleteStoredIntent } from '../db/access/connect-intents.ts';
import { endDeviceSignIn as endStored, getDeviceSignIn, markAgreed } from '../db/access/device-sign-ins.ts';
import { newId } from '../new-id.ts';
import { AppFailing } from '../oauth/tokens.ts';
import type { ConnectDeps } from './connect.ts';
import { addSignIn, type IntentWithTokens, storeIssued } from './connect-tokens.ts';

/**
 * `waitS`: seconds until the next request; `slowerS`: seconds by which all later ones are further apart; `intentId`: the owner
 * agreed; `over`: it expired, or no longer exists.
 */
export type DevicePoll = { waitS: number; slowerS?: number } | { intentId: string } | { over: true };

export type DeviceActivities = ReturnType<typeof createDeviceActivities>;

/** Activities of the `connectByDevice` workflow. */
export function createDeviceActivities({ db, secrets, tokens }: Pick<ConnectDeps, 'db' | 'secrets' | 'tokens'>) {
  /**
   * Asks the provider once whether the owner has agreed. The tokens are stored with the intent to connect the mailbox.
   * @throws ApiError, MailError: the sign-in has failed
   */
  async function pollDevice({ signInId }: { signInId: string }): Promise<DevicePoll> {
    const signIn = await getDeviceSignIn(db, secrets, signInId);
    if (!signIn) return { over: true };
    const { appId, intentId: earlier, request, expiresAt } = signIn;
    if (earlier !== null) return { intentId: earlier };
    if (expiresAt.getTime() <= Date.now()) return { over: true };
    const result = await tokens.device({ app_id: appId, device_code: request.deviceCode }).catch((error: unknown) => {
      if (error instanceof AppFailing) throw new ApiError('provider_rejected', error.detail, { cause: error });
      throw error;
    });
    if ('waitS' in result) {
      const { waitS, slowerS } = result;
      // the provider may ask for a pause that is longer than the code is valid
      const leftS = Math.max(0, expiresAt.getTime() - Date.now()) / 1000;
      return { waitS: Math.min(request.intervalS + waitS, leftS), ...(slowerS === undefined ? {} : { slowerS }) };
    }
    const intent = intentOf(request.mailbox);
    addSignIn(intent, appId, result);
    const intentId = newId('intent');
    const sealed = secrets.seal(intentLocation(intentId), JSON.stringify(intent));
    await storeIssued(() =>
      db.transaction(async (tx) => {
        await saveIntent(tx, intentId, sealed, new Date());
        await markAgreed(tx, signInId, intentId);
      }),
    );
    return { intentId };
  }

  /** Records how a sign-in ended, and deletes its intent. */
  async function endDeviceSignIn({ signInId, ...end }: DeviceEnd): Promise<void> {
    const intentId = (await getDeviceSignIn(db, secrets, signInId))?.intentId;
    await endStored(db, signInId, end);
    if (intentId) await deleteStoredIntent(db, intentId);
  }

  return { pollDevice, endDeviceSignIn };
}

type DeviceEnd = { signInId: string } & ({ accountId: string } | { failure: string });

function intentOf({ app_id: _, user, imap, smtp, ...more }: CreateDeviceSignIn): IntentWithTokens {
  const credentials = { user, ...(imap ? { imap } : {}), ...(smtp ? { smtp } : {}) };
  return { provider: 'imap', credentials, ...more };
}
