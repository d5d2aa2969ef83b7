// `npm run sizing -- --mailboxes=5000 [--mails=500000] [--sends=0] [--days=365]`: what an installation needs, by the figures of
// docs/sizing.md. `mails` and `sends` are those of all mailboxes in a day; `days` is how long mail is kept.
import { parseArgs } from 'node:util';

/** Of mails of 10 KB with three endpoints. */
const CPU_MS = { idleMinute: 22, mail: 8.4, send: 127 };
const MEMORY_MIB = { base: 456, worker: 183, mailbox: 0.85 };
const KB = { mailForGood: 16, eventsOfMail: 13, file: 11, logOfMail: 119 };
const MAILBOXES_PER_WORKER = 2_000;
const CONNECTIONS_PER_PROCESS = 24;
const LOGINS_PER_MINUTE = 1200;
const EVENT_DAYS = 30;
/** The part of the CPU that daily work uses: the rest is for peaks, imports and starts. */
const USED = 1 / 3;

/** @typedef {{ mailboxes: number, mails: number, sends: number, days: number }} Load */

/** What a load needs. @param {Load} load */
export function needs({ mailboxes, mails, sends, days }) {
  const day = 24 * 60 * 60 * 1000;
  const work = (mailboxes * 24 * 60 * CPU_MS.idleMinute + mails * CPU_MS.mail + sends * CPU_MS.send) / day;
  const workers = Math.max(1, Math.ceil(mailboxes / MAILBOXES_PER_WORKER));
  const memory = MEMORY_MIB.base + (workers - 1) * MEMORY_MIB.worker + mailboxes * MEMORY_MIB.mailbox;
  const gigabytes = (kilobytes) => (mails * kilobytes) / 1e6;
  return {
    cores: Math.ceil(work / USED),
    // half as much again for peaks, and 512 MiB for the pages of files
    memoryGiB: Math.ceil((memory * 1.5 + 512) / 1024),
    workers,
    connections: (workers + 1) * CONNECTIONS_PER_PROCESS,
    postgresGB: gigabytes(KB.mailForGood * days + KB.eventsOfMail * Math.min(days, EVENT_DAYS)),
    storageGB: gigabytes(KB.file) * days,
    files: mails * days,
    logGBPerDay: gigabytes(KB.logOfMail),
    startMinutes: mailboxes / LOGINS_PER_MINUTE,
  };
}

/** @param {Load} load */
function report(load) {
  const need = needs(load);
  const number = (value) => value.toLocaleString('en-US', { maximumFractionDigits: value < 10 ? 1 : 0 });
  return [
    ['cores', number(need.cores)],
    ['memory of all machines', `${number(need.memoryGiB)} GiB`],
    ['workers', number(need.workers)],
    ['connections to Postgres', number(need.connections)],
    [`Postgres after ${load.days} days`, `${number(need.postgresGB)} GB`],
    [`storage after ${load.days} days`, `${number(need.storageGB)} GB in ${number(need.files)} files`],
    ['write-ahead log a day', `${number(need.logGBPerDay)} GB`],
    ['after a start, all mailboxes of one provider are followed in', `${number(need.startMinutes)} minutes`],
  ];
}

/** @returns {Load} */
function loadOf(args) {
  const option = { type: 'string' };
  const { values } = parseArgs({ args, options: { mailboxes: option, mails: option, sends: option, days: option } });
  const count = (name, otherwise) => {
    const value = values[name] === undefined ? otherwise : Number(values[name]);
    if (!Number.isInteger(value) || value < 0) throw new Error(`--${name} must be a whole number`);
    return value;
  };
  const mailboxes = count('mailboxes', Number.NaN);
  return { mailboxes, mails: count('mails', mailboxes * 100), sends: count('sends', 0), days: count('days', 365) };
}

if (import.meta.main ?? process.argv[1] === import.meta.filename) {
  try {
    for (const [what, value] of report(loadOf(process.argv.slice(2)))) console.log(`${what.padEnd(62)}${value}`);
  } catch (error) {
    console.error(
      `${error.message}\nUsage: npm run sizing -- --mailboxes=N [--mails=N a day] [--sends=N a day] [--days=N]`,
    );
    process.exitCode = 2;
  }
}
