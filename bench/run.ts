import { burst } from './burst.ts';
import { dashboard } from './dashboard.ts';
import { deliveryLog } from './delivery-log.ts';
import { type Bounds, type Figures, printTable } from './figures.ts';
import { firstMail } from './first-mail.ts';
import { floods } from './floods.ts';
import { initialSync } from './initial-sync.ts';
import { idle, otherFolder, otherFolderOldServer, stream } from './latency.ts';
import { logins } from './logins.ts';
import { memory } from './memory.ts';
import { operations } from './operations.ts';
import { list, search } from './reads.ts';
import { sends } from './sends.ts';
import { type Bench, startBench } from './setup.ts';
import { webhookReplay } from './webhook-replay.ts';
import { webhookIsolation, webhookOutage, webhookRate } from './webhooks.ts';

/** One figure: what it needs is prepared once, then measured in each round. */
interface Figure<T> {
  title: string;
  bounds?: Bounds;
  rounds?: number;
  prepare(bench: Bench): Promise<T>;
  round(bench: Bench, prepared: T): Promise<Figures>;
}

const measured =
  <T>(figure: Figure<T>) =>
  (bench: Bench, rounds: number) =>
    measure(bench, figure, rounds);

const FIGURES: Record<string, (bench: Bench, rounds: number) => Promise<void>> = {
  latency: measured(idle),
  folders: measured(otherFolder),
  'folders-old': measured(otherFolderOldServer),
  stream: measured(stream),
  burst: measured(burst),
  operations: measured(operations),
  floods: measured(floods),
  list: measured(list),
  search: measured(search),
  'initial-sync': measured(initialSync),
  memory: measured(memory),
  logins: measured(logins),
  sends: measured(sends),
  'delivery-log': measured(deliveryLog),
  dashboard: measured(dashboard),
  'first-mail': measured(firstMail),
  'webhook-isolation': measured(webhookIsolation),
  'webhook-outage': measured(webhookOutage),
  'webhook-rate': measured(webhookRate),
  'webhook-replay': measured(webhookReplay),
};

/** A figure that hangs is a figure that failed. */
const DEADLINE_MS = 60 * 60_000;

async function measure<T>(bench: Bench, figure: Figure<T>, rounds: number): Promise<void> {
  const prepared = await figure.prepare(bench);
  const results: Figures[] = [];
  for (let round = 1; round <= (figure.rounds ?? rounds); round++) {
    const result = await figure.round(bench, prepared);
    results.push(result);
    const short = Object.entries(result).map(([name, value]) => `${name.trim()} ${value.toFixed(1)}`);
    console.log(`round ${round}: ${short.join(', ')}`);
  }
  printTable(figure.title, results, figure.bounds);
}

/**
 * Measures the named figures, or `all`, on the built product, and prints a table each; `--rounds=N` instead of 3, `--short`
 * with less data where a figure has much.
 * Answers the exit code: 0, or 2 for a name that there is none of.
 */
export async function runBench(args: string[]): Promise<number> {
  const names = args.filter((arg) => !arg.startsWith('--'));
  const rounds = Number(args.find((arg) => arg.startsWith('--rounds='))?.split('=')[1] ?? 3);
  const wanted = names.includes('all') ? Object.keys(FIGURES) : names;
  const unknown = wanted.filter((name) => !(name in FIGURES));
  if (wanted.length === 0 || unknown.length > 0) {
    console.log(
      `usage: npm run bench -- NAME… [--rounds=N] [--short]\n  NAME: ${[...Object.keys(FIGURES), 'all'].join(', ')}`,
    );
    return 2;
  }
  setTimeout(() => {
    console.log('the bench takes too long: given up');
    process.exit(1);
  }, DEADLINE_MS).unref();
  for (const name of wanted) {
    // each figure on a product of its own: none stands in the dust of another
    const bench = { ...(await startBench()), short: args.includes('--short') };
    try {
      await FIGURES[name]?.(bench, rounds);
    } finally {
      await bench.stop();
    }
  }
  return 0;
}
