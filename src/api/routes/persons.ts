import Type from 'typebox';
import {
  InvitePerson,
  Person,
  PersonInvited,
  PersonList,
  PersonRemoved,
  UpdatePerson,
} from '../../contract/access/person.ts';
import { Limit, Offset } from '../../contract/common.ts';
import { ApiError } from '../../contract/errors.ts';
import { deleteApiKey } from '../../db/access/api-keys.ts';
import { changeRole, invitePerson, resetPassword } from '../../db/access/invited-persons.ts';
import { keepWayIn } from '../../db/access/last-way-in.ts';
import { getPerson, listPersons } from '../../db/access/persons.ts';
import type { Queryable } from '../../db/driver/client.ts';
import { existing, Id, responses, type Routes } from './route.ts';

const params = Type.Object({ id: Id('person') });

/** Routes of the people who sign in to the dashboard. */
export const personRoutes: Routes = (app, { db, admissions, settings }) => {
  const urlOf = (token: string) => `${settings.publicUrl}/sign-in/invitation#${token}`;

  app.get(
    '/persons',
    {
      config: { reach: 'installation' },
      schema: {
        tags: ['People'],
        operationId: 'listPersons',
        summary: 'List people',
        description:
          'Returns invited people, and people who have signed in at the identity provider. Removed people are not listed.',
        querystring: Type.Object({ offset: Offset, limit: Limit() }),
        response: responses('People, oldest first', PersonList),
      },
    },
    async ({ query }) => {
      const { data, hasMore } = await listPersons(db, query);
      return { object: 'Persons', data, has_more: hasMore };
    },
  );

  app.post(
    '/persons',
    {
      config: { reach: 'installation', isAdministration: true, idempotent: true, audit: 'person.invite' },
      schema: {
        tags: ['People'],
        operationId: 'invitePerson',
        summary: 'Invite a person',
        description:
          'Returns a link at which the person chooses a password, once, within 7 days: pass it on. The person then signs in to ' +
          'the dashboard with email address and password. An address that has been invited returns 409.',
        body: InvitePerson,
        response: responses('The person with the link', PersonInvited, 'already_exists'),
      },
    },
    async (request, reply) =>
      request.once(reply, async (tx) => {
        const invited = await invitePerson(tx, request.body);
        if (!invited) throw new ApiError('already_exists', 'email is that of a person who has been invited');
        return { ...existing(await getPerson(tx, invited.id), 'person'), url: urlOf(invited.token) };
      }),
  );

  app.patch(
    '/persons/:id',
    {
      config: { reach: 'installation', isAdministration: true, audit: 'person.update' },
      schema: {
        tags: ['People'],
        operationId: 'updatePerson',
        summary: 'Update the role of a person',
        description:
          'Another role ends the sessions of the person. People of the identity provider return 400: their groups decide. ' +
          'The last way to administer the installation stays: 403.',
        params,
        body: UpdatePerson,
        response: responses('The person', Person, 'not_found'),
      },
    },
    async ({ params: { id }, body }) => {
      await requireInvited(db, id, 'role is decided by the groups of the identity provider');
      await keepWayIn(db, (tx) => changeRole(tx, id, body.role));
      await admissions.forget();
      return existing(await getPerson(db, id), 'person');
    },
  );

  app.post(
    '/persons/:id/reset-password',
    {
      config: { reach: 'installation', isAdministration: true, audit: 'person.reset' },
      schema: {
        tags: ['People'],
        operationId: 'resetPassword',
        summary: 'Replace the password of a person by a new link',
        description:
          'The password, an earlier link and all sessions of the person stop working immediately. Returns a link at which the ' +
          'person chooses a password, once, within 7 days. People of the identity provider return 400, and the last admin where ' +
          'no key has full access 403.',
        params,
        response: responses('The person with the link', PersonInvited, 'not_found'),
      },
    },
    async ({ params: { id } }) => {
      await requireInvited(db, id, 'a person of the identity provider has no password here');
      const token = existing(await keepWayIn(db, (tx) => resetPassword(tx, id)), 'person');
      return { ...existing(await getPerson(db, id), 'person'), url: urlOf(token) };
    },
  );

  app.delete(
    '/persons/:id',
    {
      config: { reach: 'installation', isAdministration: true, audit: 'person.remove' },
      schema: {
        tags: ['People'],
        operationId: 'removePerson',
        summary: 'Remove a person',
        description:
          'Sessions and connect links of the person stop working immediately. A person of the identity provider who still has a ' +
          'role there can sign in again. The last way to administer the installation stays: 403.',
        params,
        response: responses('The person is removed', PersonRemoved, 'not_found'),
      },
    },
    async ({ params: { id } }) => {
      existing((await keepWayIn(db, (tx) => deleteApiKey(tx, id))) || undefined, 'person');
      await admissions.forget();
      return { object: 'PersonRemoved', id };
    },
  );
};

/** @throws ApiError not_found; invalid_parameters with `otherwise` */
async function requireInvited(db: Queryable, id: string, otherwise: string): Promise<void> {
  const { source } = existing(await getPerson(db, id), 'person');
  if (source !== 'invitation') throw new ApiError('invalid_parameters', otherwise);
}
