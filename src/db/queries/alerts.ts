import type pg from 'pg';
import { ALERT_CHANNELS, type AlertChannel, type Alerts } from '../../contract/overview.ts';

interface LastRow {
  channel: AlertChannel;
  at: Date;
  sent_at: Date | null;
  text: string;
  error: string | null;
}

/** The alerts that are set, with the last message of each channel. */
export async function readAlerts(
  pool: pg.Pool,
  { channels, backlog }: { channels: readonly AlertChannel[]; backlog: number },
): Promise<Alerts> {
  const { rows: last } = await pool.query<LastRow>({ name: 'alerts-last', text: LAST });
  const { rows } = await pool.query<{ open: number }>({ name: 'alerts-open', text: OPEN });
  return {
    channels: ALERT_CHANNELS.map((channel) => {
      const row = last.find((one) => one.channel === channel);
      return {
        channel,
        is_on: channels.includes(channel),
        last: row
          ? { at: row.at.toISOString(), sent_at: row.sent_at?.toISOString() ?? null, text: row.text, error: row.error }
          : null,
      };
    }),
    backlog,
    open: rows[0]?.open ?? 0,
  };
}

const LAST = `
  select distinct on (channel) channel, created_at as at, sent_at, body->>'text' as text, error
  from alert_messages order by channel, created_at desc, id desc`;
const OPEN = `select count(*)::int as open from alerts where closed_at is null and opened_in is not null`;
