import Type from 'typebox';
import { LookupList } from '../../contract/lookup.ts';
import { lookup } from '../../db/queries/lookup.ts';
import { responses, type Routes } from './route.ts';

/** The route that finds what an id names. */
export const lookupRoutes: Routes = (app, { pool }) => {
  app.get(
    '/lookup',
    {
      config: { reach: 'within' },
      schema: {
        tags: ['Installation'],
        operationId: 'lookUp',
        summary: 'Find what an id names',
        description:
          'Returns the object with an id of any kind, the emails with a Message-ID in angle brackets, or the mailboxes and ' +
          'endpoints whose name, address or URL contains the text; at most 20. Objects that were deleted are not found.',
        querystring: Type.Object({
          q: Type.String({ minLength: 1, maxLength: 998, description: 'an id, a Message-ID, or part of a name' }),
        }),
        response: responses('What was found', LookupList),
      },
    },
    async ({ query: { q }, caller }) => ({
      object: 'Lookup' as const,
      data: await lookup(pool, q, caller.accountIds),
      has_more: false,
    }),
  );
};
