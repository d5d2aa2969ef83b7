import type { ServerLogin } from '../contract/account.ts';
import type { Db } from '../db/driver/client.ts';
import { MailError } from '../mail-wire/mail-error.ts';
import { type Logger, masked } from '../runtime/logger.ts';
import type { Submitter } from '../smtp/submit.ts';
import type { Poster } from '../webhooks/attempt/post.ts';
import { signatureHeaders } from '../webhooks/attempt/sign.ts';
import {
  ALERT_TIMES,
  type AlertTimes,
  claimMessage,
  type DueMessage,
  lookForProblems,
  settleMessage,
} from './alert-state.ts';
import { channelsOf } from './channels.ts';
import { alertMail } from './mail.ts';

/** Where messages go, and what is a problem. See Config.alerts. */
export interface AlertSettings {
  /** `secret`: `whsec_…`, which signs the calls */
  url?: { url: string; secret: string };
  email?: { to: string[]; from: string; smtp: ServerLogin };
  /** waiting deliveries that are a problem; 0: none are */
  backlog: number;
}

export interface AlertDeps {
  db: Db;
  logger: Logger;
  settings: AlertSettings;
  /** address of the installation */
  installation: string;
  poster: Pick<Poster, 'post'>;
  submitter: Pick<Submitter, 'submit'>;
  /** for tests */
  times?: AlertTimes;
}

/** Within the time for which an attempt holds a message. */
const CALL_MS = 30_000;
/** Messages sent by one run. */
const AT_ONCE = 10;

/** Looks for problems, and sends the messages that are due. */
export async function sendAlerts(deps: AlertDeps): Promise<void> {
  const { db, settings, installation, times = ALERT_TIMES } = deps;
  await lookForProblems(db, {
    backlog: settings.backlog,
    channels: channelsOf(settings),
    installation,
    now: new Date(),
    times,
  });
  for (let sent = 0; sent < AT_ONCE; sent++) {
    const message = await claimMessage(db, new Date());
    if (!message) return;
    const error = await attempt(deps, message);
    const state = await settleMessage(db, message, error, new Date());
    const about = { alertId: message.id, channel: message.channel, attempts: message.attempts };
    if (state === 'sent') deps.logger.info(about, 'alert sent');
    else if (state === 'due') {
      deps.logger.warn({ ...about, reason: masked(error ?? '') }, 'alert not sent; a later attempt follows');
    } else deps.logger.error({ ...about, reason: masked(error ?? '') }, 'alert given up');
  }
}

/** Sends a message. Returns why it was not sent; null: it was. */
async function attempt(deps: AlertDeps, message: DueMessage): Promise<string | null> {
  const { url, email } = deps.settings;
  try {
    if (message.channel === 'url') return url ? await post(deps, message, url) : 'ALERT_URL is not set';
    return email ? await mail(deps, message, email) : 'ALERT_EMAIL is not set';
  } catch (error) {
    if (error instanceof MailError) return error.detail;
    return error instanceof Error ? error.message : 'it failed';
  }
}

async function post({ poster }: AlertDeps, { id, body }: DueMessage, { url, secret }: { url: string; secret: string }) {
  const bytes = Buffer.from(JSON.stringify(body));
  const signatures = signatureHeaders({ eventId: id, body: bytes, at: new Date(), secret });
  const headers = { 'Content-Type': 'application/json', ...signatures };
  const { httpStatus, error } = await poster.post({
    url,
    headers: Object.entries(headers).map(([name, value]) => ({ name, value })),
    body: bytes,
    timeoutMs: CALL_MS,
  });
  if (httpStatus !== null && httpStatus >= 200 && httpStatus < 300) return null;
  return error ?? `the response was ${httpStatus}`;
}

async function mail(deps: AlertDeps, { id, body }: DueMessage, email: NonNullable<AlertSettings['email']>) {
  const { from, to, smtp } = email;
  const { rejected } = await deps.submitter.submit('alerts', smtp, {
    envelope: { from, to },
    source: await alertMail(body, email),
    beforeData: () => Promise.resolve(),
  });
  if (rejected.length > 0) {
    // the others have it: they would get it again with each further attempt
    const counts = { refused: rejected.length, recipients: to.length };
    deps.logger.warn({ alertId: id, ...counts }, 'alert refused for some recipients');
  }
  return null;
}
