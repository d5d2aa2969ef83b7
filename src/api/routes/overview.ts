import Type from 'typebox';
import { OneOf } from '../../contract/common.ts';
import { Settings } from '../../contract/installation.ts';
import { Overview, OVERVIEW_PERIODS, type OverviewPeriod } from '../../contract/overview.ts';
import { readAlerts } from '../../db/queries/alerts.ts';
import { readOverview } from '../../db/queries/overview.ts';
import { responses, type Routes } from './route.ts';

/** Lifetime of the cached overview, ms. */
const FRESH_MS: Record<OverviewPeriod, number> = { hour: 2_000, day: 20_000 };

/** Routes of the installation's status and effective settings. */
export const overviewRoutes: Routes = (app, { pool, installation, settings }) => {
  const latest = new Map<OverviewPeriod, { at: number; overview: Promise<Overview> }>();

  function overviewOf(period: OverviewPeriod): Promise<Overview> {
    const known = latest.get(period);
    if (known && Date.now() - known.at < FRESH_MS[period]) return known.overview;
    const overview = withAlerts(readOverview(pool, { period }));
    latest.set(period, { at: Date.now(), overview });
    overview.catch(() => latest.delete(period));
    return overview;
  }

  async function withAlerts(overview: Promise<Omit<Overview, 'alerts'>>): Promise<Overview> {
    const [rest, alerts] = await Promise.all([overview, readAlerts(pool, settings.alerts)]);
    return { ...rest, alerts };
  }

  app.get(
    '/overview',
    {
      config: { reach: 'installation' },
      schema: {
        tags: ['Installation'],
        operationId: 'getOverview',
        summary: 'Get installation status',
        description:
          'Returns mailboxes by status, current problems, and emails and deliveries of the last hour or day.',
        querystring: Type.Object({
          period: Type.Optional(OneOf(OVERVIEW_PERIODS, { description: 'default: `hour`' })),
          endpoint_id: Type.Optional(
            Type.String({ description: '`we_…`: the buckets count only deliveries to this endpoint, and no emails' }),
          ),
        }),
        response: responses('The overview, at most 20 seconds old', Overview),
      },
    },
    async ({ query: { period = 'hour', endpoint_id: endpointId } }) =>
      endpointId === undefined ? overviewOf(period) : withAlerts(readOverview(pool, { period, endpointId })),
  );

  app.get(
    '/settings',
    {
      config: { reach: 'installation' },
      schema: {
        tags: ['Installation'],
        operationId: 'getSettings',
        summary: 'Get effective settings',
        description: 'Returns the settings of this API process, without the values of secrets.',
        response: responses('The settings', Settings),
      },
    },
    async () => ({ object: 'Settings', ...installation }),
  );
};
