import Type from 'typebox';
import type { Permissions } from '../api-key.ts';
import { DateTime, IdOf, ListOf, Nullable, ObjectName, OneOf } from '../common.ts';

export const ROLES = ['admin', 'operator', 'viewer'] as const;
export type Role = (typeof ROLES)[number];

/** What the sessions of a person with each role may do. */
export const PERMISSIONS_OF: Record<Role, Permissions> = { admin: 'full', operator: 'operate', viewer: 'read' };

/** How a person signs in. */
export const PERSON_SOURCES = ['invitation', 'identity_provider'] as const;
export type PersonSource = (typeof PERSON_SOURCES)[number];

/** Lifetime of the link to choose a password, ms. */
export const INVITATION_MS = 7 * 24 * 60 * 60 * 1000;

const MAX_PASSWORD = 200;
/** A password to be set. */
export const NewPassword = Type.String({
  minLength: 12,
  maxLength: MAX_PASSWORD,
  description: 'the password from now on',
});
/** A password to be compared. */
export const GivenPassword = Type.String({ maxLength: MAX_PASSWORD, description: 'the password until now' });

const PersonRole = OneOf(ROLES, {
  description:
    '`admin`: everything; `operator`: everything except keys and people; `viewer`: reading, without webhook secrets',
});

const personFields = {
  object: ObjectName('Person'),
  id: IdOf('person'),
  name: Type.String({ description: 'as invited, or as the identity provider says' }),
  email: Nullable(Type.String({ description: 'null: the identity provider names none' })),
  role: PersonRole,
  source: OneOf(PERSON_SOURCES, {
    description:
      '`invitation`: signs in with email address and password; `identity_provider`: signs in at `OIDC_ISSUER`, whose groups ' +
      'decide on the role',
  }),
  created_at: DateTime('when the person was invited, or first signed in at the identity provider'),
  last_signed_in_at: Nullable(DateTime('null: not yet')),
  invitation_expires_at: Nullable(
    DateTime('when the link to choose a password stops working, or did; null: there is a password, or none is needed'),
  ),
};

/** Someone who signs in to the dashboard without a key. */
export const Person = Type.Object(personFields, {
  $id: 'Person',
  description: 'someone who signs in to the dashboard without a key',
});
export type Person = Type.Static<typeof Person>;
export const PersonList = ListOf('Persons', Person);

export const PersonInvited = Type.Object(
  {
    ...personFields,
    url: Type.String({
      description:
        'the page where the person chooses a password; anyone who has it can use it once; shown only in this response',
    }),
  },
  { $id: 'PersonInvited', description: 'a person, with the link at which they choose a password' },
);
export type PersonInvited = Type.Static<typeof PersonInvited>;

export const InvitePerson = Type.Object(
  {
    name: Type.String({ minLength: 1, maxLength: 100, description: 'for the list of people and the audit log' }),
    email: Type.String({
      format: 'idn-email',
      maxLength: 320,
      description: 'what the person signs in with, in any case; no mail is sent to it',
    }),
    role: PersonRole,
  },
  { $id: 'InvitePerson', description: 'whom to invite' },
);
export type InvitePerson = Type.Static<typeof InvitePerson>;

export const UpdatePerson = Type.Object(
  { role: PersonRole },
  { $id: 'UpdatePerson', description: 'the new role of a person' },
);

export const PersonRemoved = Type.Object(
  { object: ObjectName('PersonRemoved'), id: IdOf('person') },
  { $id: 'PersonRemoved', description: 'the person is removed' },
);

/** Body of POST /session/password. */
export const ReplacePassword = Type.Object(
  { current_password: GivenPassword, new_password: NewPassword },
  { $id: 'ReplacePassword', description: 'the password of the person who is signed in, and its replacement' },
);
