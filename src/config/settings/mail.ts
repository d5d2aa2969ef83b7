import { DAY, HOUR, MINUTE, SECOND } from '../../duration.ts';
import { cidrs, duration, durations, flag, integer, oneOf } from '../setting.ts';

const INSECURE_MAIL = {
  false: 'never',
  never: 'never',
  loopback: 'loopback',
  true: 'always',
  always: 'always',
} as const;

/** Connections to mail servers, and how mailboxes are followed. */
export const MAIL = {
  OUTBOUND_ALLOW: cidrs(
    'Private networks that mail connections and webhooks may reach. Public addresses are always allowed.',
    'none; loopback with the embedded database',
  ),
  ALLOW_INSECURE_MAIL: {
    ...oneOf(
      'Mail connections without TLS: to no server, to this machine (`loopback`), or to any.',
      INSECURE_MAIL,
      'never',
      ['false', 'loopback', 'true'],
    ),
    default: '`false`; `loopback` with the embedded database',
  },
  SYNC_POLL_INTERVAL: duration(
    'How often folders are checked that the server does not report changes of.',
    25 * SECOND,
    [SECOND / 10, HOUR],
  ),
  SYNC_LOGIN_CHECK: duration(
    'How often a separate login checks the password of an idle mailbox; `0`: never. A changed password also shows when the ' +
      'connection ends or a command is refused.',
    6 * HOUR,
    [0, DAY],
  ),
  SYNC_LOGINS_PER_MINUTE: integer(
    'Logins at one mail host, over all workers; half as many for a while, each time it asks for fewer. Those of API calls do ' +
      'not wait, but count.',
    'logins a minute',
    1200,
    [1, 100_000],
  ),
  SYNC_MAX_MAILBOXES: integer('Mailboxes that one worker follows.', 'mailboxes', 2000, [1, 100_000]),
  SYNC_HEARTBEAT_TIMEOUT: duration(
    'Temporal retries a watch after this time without a heartbeat. Other workers notice a lost worker within 15 s, whatever ' +
      'it is set to.',
    2 * MINUTE,
    [2 * SECOND, 10 * MINUTE],
  ),
};

/** Calls of webhook endpoints. */
export const WEBHOOKS = {
  WEBHOOK_RETRY_SCHEDULE: durations(
    'Delays before each further attempt of a delivery; their number is the number of retries.',
    '5s,30s,5m,30m,2h,5h,10h,14h,20h,24h',
    [1, 30 * DAY],
  ),
  WEBHOOK_TIMEOUT: duration('Time for one call, with its response.', 30 * SECOND, [SECOND / 10, 5 * MINUTE]),
  WEBHOOK_AUTO_DISABLE: flag(
    'Whether endpoints that fail for days are [disabled](webhooks.md#endpoints-that-fail).',
    true,
  ),
};
