import Type from 'typebox';
import { CreateDeviceSignIn, DeviceSignIn } from '../../contract/oauth.ts';
import { ApiError } from '../../contract/errors.ts';
import { getAccount } from '../../db/queries/accounts.ts';
import { getApp } from '../../db/queries/oauth-apps.ts';
import {
  getDeviceSignIn,
  saveDeviceSignIn,
  type StoredDeviceSignIn,
  toDeviceSignIn,
} from '../../db/access/device-sign-ins.ts';
import { beginDevice } from '../../oauth/device.ts';
import { judge } from '../../oauth/faults.ts';
import { NoToken } from '../../oauth/request.ts';
import { existing, Id, responses, type RouteDeps, type Routes } from './route.ts';

/** Routes of sign-ins on another device (RFC 8628), for hosts without a browser. */
export const deviceSignInRoutes: Routes = (app, deps) => {
  const { db, secrets } = deps;
  app.post(
    '/oauth/device',
    {
      config: {
        reach: 'installation',
        idempotent: true,
        reserves: 'deviceSignIn',
        audit: 'device_sign_in.create',
      },
      schema: {
        tags: ['Accounts'],
        operationId: 'createDeviceSignIn',
        summary: 'Create a sign-in on another device',
        description:
          'For hosts without a browser (RFC 8628): show `user_code` and `verification_uri` to the owner of the mailbox, who agrees on ' +
          'any device. The mailbox then connects, with the event `account.add`, without a further call. Microsoft has this for mail; ' +
          'Google has not.',
        body: CreateDeviceSignIn,
        response: responses(
          'The sign-in, waiting',
          DeviceSignIn,
          ...(['not_found', 'already_exists', 'provider_rejected', 'provider_error'] as const),
        ),
      },
    },
    async ({ body, reservedId: id }) => {
      const signIn = (await getDeviceSignIn(db, secrets, id)) ?? (await beginSignIn(deps, id, body));
      const shown = toDeviceSignIn(signIn);
      if (shown.status === 'waiting') await deps.commands.connectByDevice(id, signIn.request.intervalS);
      return shown;
    },
  );

  app.get(
    '/oauth/device/:id',
    {
      config: { reach: 'installation' },
      schema: {
        tags: ['Accounts'],
        operationId: 'getDeviceSignIn',
        summary: 'Get a sign-in on another device',
        description: 'Returns its status, until a week after it expired.',
        params: Type.Object({ id: Id('deviceSignIn') }),
        response: responses('The sign-in', DeviceSignIn, 'not_found'),
      },
    },
    async ({ params }) => toDeviceSignIn(existing(await getDeviceSignIn(db, secrets, params.id), 'sign-in')),
  );
};

/** Begins a sign-in at the provider and stores it. Of calls with one id, all get what the first has stored. */
async function beginSignIn(
  { db, secrets, fetch }: RouteDeps,
  id: string,
  mailbox: CreateDeviceSignIn,
): Promise<StoredDeviceSignIn> {
  const app = existing(await getApp(db, secrets, mailbox.app_id), 'OAuth app');
  if (mailbox.account_id !== undefined) existing(await getAccount(db, mailbox.account_id), 'account');
  const code = await beginDevice(fetch, app).catch((error: unknown) => {
    if (!(error instanceof NoToken)) throw error;
    const { fault, detail } = judge(error.failure);
    throw new ApiError(fault === 'provider' ? 'provider_error' : 'provider_rejected', detail, { cause: error });
  });
  if (!code) throw new ApiError('invalid_parameters', 'the provider of this app has no sign-in on another device');
  const { expiresAt, ...secret } = code;
  const request = { ...secret, mailbox };
  await saveDeviceSignIn(db, secrets, { id, appId: app.id, request, createdAt: new Date(), expiresAt });
  return existing(await getDeviceSignIn(db, secrets, id), 'sign-in');
}
