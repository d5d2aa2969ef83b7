import type { Database } from '../../../src/db/driver/client.ts';
import { createEndpoint, type NewEndpoint } from '../../../src/db/queries/endpoints.ts';
import type { Secrets } from '../../../src/security/secrets.ts';

/** Stores an endpoint at which nothing listens; returns its id. */
export async function storeEndpoint(
  { db }: Pick<Database, 'db'>,
  secrets: Secrets,
  given: Partial<NewEndpoint> = {},
): Promise<string> {
  const { id } = await createEndpoint(db, secrets, {
    url: 'https://93.184.215.14/',
    description: null,
    enabled: true,
    triggerEvents: ['email.new'],
    accountIds: [],
    headers: [],
    secret: 'whsec_',
    ...given,
  });
  return id;
}
