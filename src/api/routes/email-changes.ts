import Type from 'typebox';
import { Email } from '../../contract/email.ts';
import { EmailDeleted } from '../../contract/sending.ts';
import { getEmail, getEmailSource } from '../../db/emails.ts';
import { EmailParams } from './emails.ts';
import { answers, found, type RouteDeps, type Routes, sendJson } from './route.ts';
import { requireWritable } from './writable.ts';

const MoveEmail = Type.Object({
  folders_ids: Type.Array(Type.String({ description: '`fld_…`' }), {
    minItems: 1,
    maxItems: 1,
    description: 'exactly one: IMAP keeps an email in one folder',
  }),
});

const ERRORS = ['invalid_credentials', 'not_found', 'provider_rejected', 'provider_error'] as const;

type Params = Type.Static<typeof EmailParams>;

/** Changing emails (CONTRACT "Emails"); each call answers after the provider confirmed. */
export const emailChangeRoutes: Routes = (app, deps) => {
  const { commands } = deps;

  for (const [path, seen] of [
    ['read', true],
    ['unread', false],
  ] as const) {
    app.post(
      `/:account_id/emails/:email_id/${path}`,
      {
        schema: {
          tags: ['Emails'],
          summary: `Mark an email as ${path}`,
          params: EmailParams,
          response: answers('The email', Email, ...ERRORS),
        },
      },
      async ({ params }, reply) => {
        await requireEmail(deps, params);
        await commands.markEmail(params.account_id, params.email_id, seen);
        return sendJson(reply, await changedEmail(deps, params));
      },
    );
  }

  app.post(
    '/:account_id/emails/:email_id/modify',
    {
      schema: {
        tags: ['Emails'],
        summary: 'Move an email',
        description: 'To exactly one folder. Where it lies there already nothing happens, and there is no event.',
        params: EmailParams,
        body: MoveEmail,
        response: answers('The email', Email, ...ERRORS),
      },
    },
    async ({ params, body }, reply) => {
      await requireEmail(deps, params);
      await commands.moveEmail(params.account_id, params.email_id, body.folders_ids[0] as string);
      return sendJson(reply, await changedEmail(deps, params));
    },
  );

  app.delete(
    '/:account_id/emails/:email_id',
    {
      schema: {
        tags: ['Emails'],
        summary: 'Trash an email',
        description:
          'Moves it to Trash, where it stays readable; `Trash` is made where the provider has none. What lies there ' +
          'already stays as it is.',
        params: EmailParams,
        response: answers('It lies in Trash', EmailDeleted, ...ERRORS),
      },
    },
    async ({ params }) => {
      await requireEmail(deps, params);
      await commands.trashEmail(params.account_id, params.email_id);
      return { object: 'EmailDeleted', id: params.email_id };
    },
  );
};

/** No run is started for what is not there, or for an account that cannot be written to. */
async function requireEmail({ db, pool }: RouteDeps, params: Params): Promise<void> {
  const { account_id, email_id } = params;
  const [stored] = await Promise.all([getEmailSource(pool, account_id, email_id), requireWritable(db, account_id)]);
  found(stored, 'email');
}

async function changedEmail({ pool }: RouteDeps, params: Params) {
  return found(await getEmail(pool, params.account_id, params.email_id, { metaOnly: false }), 'email');
}
