import { writeFile } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { batches } from './batches.ts';
import { burst } from './burst.ts';
import { connecting } from './connecting.ts';
import { counts } from './release/counts.ts';
import { dashboard } from './dashboard.ts';
import { deliveryLog } from './webhooks/log.ts';
import { type Bounds, type Figures, type Limits, printSummary, printTable, type Result, summarize } from './figures.ts';
import { firstMail } from './first-mail.ts';
import { floods } from './floods.ts';
import { growth } from './growth.ts';
import { initialSync } from './initial-sync.ts';
import { idle, otherFolder, otherFolderOldServer, stream } from './latency.ts';
import { logins } from './logins.ts';
import { memory } from './memory.ts';
import { operations } from './operations.ts';
import { largeMails } from './large-mails.ts';
import { parsing } from './parsing.ts';
import { peer } from './peer/peer.ts';
import { missingVariables } from './peer/email-engine.ts';
import { list, reads, search } from './reads.ts';
import { restart } from './restart.ts';
import { retention } from './retention.ts';
import { sendBurst } from './send-burst.ts';
import { sends } from './sends.ts';
import { type Bench, startBench } from './ground/setup.ts';
import { soak } from './soak.ts';
import { store } from './store.ts';
import { tokenEnds } from './token-ends.ts';
import { webhookReplay } from './webhooks/replay.ts';
import { webhookIsolation, webhookOutage, webhookRate } from './webhooks/dispatch.ts';

/** One figure, prepared once, then measured in each round; with a product `B`, or none. */
interface Figure<T, B = Bench> {
  title: string;
  bounds?: Bounds;
  limits?: Limits;
  rounds?: number;
  /** prints the result, instead of a table with a row per figure */
  print?: (result: Result) => void;
  prepare(bench: B): Promise<T>;
  round(bench: B, prepared: T): Promise<Figures>;
}

const measured =
  <T>(figure: Figure<T>) =>
  (bench: Bench, rounds: number) =>
    measure(bench, figure, rounds);

const FIGURES: Record<string, (bench: Bench, rounds: number) => Promise<Result>> = {
  latency: measured(idle),
  folders: measured(otherFolder),
  'folders-old': measured(otherFolderOldServer),
  stream: measured(stream),
  burst: measured(burst),
  operations: measured(operations),
  batches: measured(batches),
  floods: measured(floods),
  list: measured(list),
  reads: measured(reads),
  search: measured(search),
  'initial-sync': measured(initialSync),
  memory: measured(memory),
  connecting: measured(connecting),
  restart: measured(restart),
  logins: measured(logins),
  'token-ends': measured(tokenEnds),
  sends: measured(sends),
  counts: measured(counts),
  peer: measured(peer),
  'send-burst': measured(sendBurst),
  growth: measured(growth),
  soak: measured(soak),
  store: measured(store),
  'delivery-log': measured(deliveryLog),
  retention: measured(retention),
  dashboard: measured(dashboard),
  'first-mail': measured(firstMail),
  'webhook-isolation': measured(webhookIsolation),
  'webhook-outage': measured(webhookOutage),
  'webhook-rate': measured(webhookRate),
  'webhook-replay': measured(webhookReplay),
  'large-mails': measured(largeMails),
};

/** Figures that need no product. */
const ALONE: Record<string, (rounds: number) => Promise<Result>> = {
  parsing: (rounds) => measure(undefined, parsing, rounds),
};

/** A figure that hangs is a figure that failed. */
const DEADLINE_MS = 180 * 60_000;
/** What `all` leaves out: the first takes an hour, the second needs another product. */
const NOT_IN_ALL = ['soak', 'peer'];

async function measure<T, B>(bench: B, figure: Figure<T, B>, rounds: number): Promise<Result> {
  const prepared = await figure.prepare(bench);
  const results: Figures[] = [];
  for (let round = 1; round <= (figure.rounds ?? rounds); round++) {
    const result = await figure.round(bench, prepared);
    results.push(result);
    const short = Object.entries(result).map(([name, value]) => `${name.trim()} ${value.toFixed(1)}`);
    console.log(`round ${round}: ${figure.print ? 'done' : short.join(', ')}`);
  }
  const result = summarize(figure.title, results, figure.bounds, figure.limits);
  (figure.print ?? printTable)(result);
  return result;
}

/**
 * Measures the named figures, or `all`, on the built product, and prints a table for each, and a summary of several.
 * `--rounds=N` instead of 3, `--short` with less data, `--json=FILE` writes the results as JSON. Returns the exit code: 0; 1
 * when a figure could not be taken; 2 for an unknown name.
 */
export async function runBench(args: string[]): Promise<number> {
  const names = args.filter((arg) => !arg.startsWith('--'));
  const option = (name: string) => args.find((arg) => arg.startsWith(`--${name}=`))?.slice(name.length + 3);
  const rounds = Number(option('rounds') ?? 3);
  const all = [...Object.keys(ALONE), ...Object.keys(FIGURES)];
  const wanted = names.includes('all') ? all.filter((name) => !NOT_IN_ALL.includes(name)) : names;
  const unknown = wanted.filter((name) => !all.includes(name));
  if (wanted.length === 0 || unknown.length > 0) {
    console.log(
      `usage: npm run bench -- NAME… [--rounds=N] [--short] [--json=FILE]\n  NAME: ${[...all, 'all'].join(', ')}`,
    );
    return 2;
  }
  const missing = wanted.includes('peer') ? missingVariables() : [];
  if (missing.length > 0) {
    console.log(`peer needs a running EmailEngine, see docs/performance.md. Not set: ${missing.join(', ')}`);
    return 2;
  }
  const results: Record<string, Result> = {};
  const failed: string[] = [];
  for (const name of wanted) {
    try {
      results[name] = await takeFigure(name, rounds, args.includes('--short'));
    } catch (error) {
      // the other figures are still useful
      failed.push(name);
      console.error(`${name} could not be taken:`, error);
    }
  }
  if (wanted.length > 1) printSummary(Object.values(results));
  const file = option('json');
  if (file !== undefined) {
    const machine = { at: new Date().toISOString(), node: process.version, cores: availableParallelism() };
    await writeFile(file, `${JSON.stringify({ ...machine, figures: results }, null, 2)}\n`);
  }
  if (failed.length > 0) console.log(`could not be taken: ${failed.join(', ')}`);
  return failed.length > 0 ? 1 : 0;
}

/** Takes one figure, on a separate product if it needs one: figures do not affect each other. */
async function takeFigure(name: string, rounds: number, short: boolean): Promise<Result> {
  const deadline = setTimeout(() => {
    console.log(`${name} takes too long: given up`);
    process.exit(1);
  }, DEADLINE_MS).unref();
  const alone = ALONE[name];
  if (alone) return alone(rounds).finally(() => clearTimeout(deadline));
  const bench = { ...(await startBench()), short };
  try {
    return await (FIGURES[name] as (typeof FIGURES)[string])(bench, rounds);
  } finally {
    clearTimeout(deadline);
    await bench.stop();
  }
}
