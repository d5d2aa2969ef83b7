import Type from 'typebox';
import { OneOf } from '../../contract/common.ts';
import { Settings } from '../../contract/installation.ts';
import { Overview, OVERVIEW_PERIODS, type OverviewPeriod } from '../../contract/overview.ts';
import { readOverview } from '../../db/queries/overview.ts';
import { responses, type Routes } from './route.ts';

/** However many look at it, it is read this often, ms. */
const FRESH_MS: Record<OverviewPeriod, number> = { hour: 2_000, day: 20_000 };

/** How the installation is doing, and the settings that it runs with. */
export const overviewRoutes: Routes = (app, { pool, installation }) => {
  const latest = new Map<OverviewPeriod, { at: number; overview: Promise<Overview> }>();

  function overviewOf(period: OverviewPeriod): Promise<Overview> {
    const known = latest.get(period);
    if (known && Date.now() - known.at < FRESH_MS[period]) return known.overview;
    const overview = readOverview(pool, { period });
    latest.set(period, { at: Date.now(), overview });
    overview.catch(() => latest.delete(period));
    return overview;
  }

  app.get(
    '/overview',
    {
      config: { reach: 'installation' },
      schema: {
        tags: ['Installation'],
        operationId: 'getOverview',
        summary: 'How everything is doing',
        description: 'Mailboxes by state, what is wrong now, mail and deliveries over the last hour or day.',
        querystring: Type.Object({
          period: Type.Optional(OneOf(OVERVIEW_PERIODS)),
          endpoint_id: Type.Optional(
            Type.String({ description: '`we_…`: the buckets count its deliveries alone, and no mail' }),
          ),
        }),
        response: responses('The overview; 20 seconds old at most', Overview),
      },
    },
    async ({ query: { period = 'hour', endpoint_id: endpointId } }) =>
      endpointId === undefined ? overviewOf(period) : readOverview(pool, { period, endpointId }),
  );

  app.get(
    '/settings',
    {
      config: { reach: 'installation' },
      schema: {
        tags: ['Installation'],
        operationId: 'getSettings',
        summary: 'The settings in force',
        description: 'Of this API process. Secrets are not shown.',
        response: responses('The settings', Settings),
      },
    },
    async () => ({ object: 'Settings', ...installation }),
  );
};
