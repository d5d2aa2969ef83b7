/** The value below which a share `part` (0 to 1) of the numbers is; NaN without numbers. */
export function percentile(numbers: number[], part: number): number {
  const sorted = [...numbers].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.max(0, Math.ceil(part * sorted.length) - 1))] ?? Number.NaN;
}

export const median = (numbers: number[]): number => percentile(numbers, 0.5);

/** One round's figures by name; a bench returns the same names in each round. */
export type Figures = Record<string, number>;

/** The bounds of figures; `most` for times, `least` for rates. */
export type Bounds = Record<string, { most?: number; least?: number }>;

/** Baselines of figures: the name of a figure of the same round, taken without the product. */
export type Limits = Record<string, string>;

/** One figure of a bench over its rounds. */
export interface Measured {
  name: string;
  rounds: number[];
  median: number;
  wanted?: { most?: number; least?: number };
  /** the figure without the product, in the same rounds */
  limit?: { name: string; median: number };
}

/** The results of a bench. */
export interface Result {
  title: string;
  figures: Measured[];
}

export function summarize(title: string, rounds: Figures[], bounds: Bounds = {}, limits: Limits = {}): Result {
  const of = (name: string) => rounds.map((round) => round[name] ?? round[`  ${name}`] ?? Number.NaN);
  return {
    title,
    figures: Object.keys(rounds[0] ?? {}).map((name) => {
      const limit = limits[name];
      return {
        name: name.trim(),
        rounds: of(name),
        median: median(of(name)),
        ...(bounds[name] && { wanted: bounds[name] }),
        ...(limit !== undefined && { limit: { name: limit, median: median(of(limit)) } }),
      };
    }),
  };
}

/** Prints a row per figure: each round, the median over the rounds, and the bound, if any. */
export function printTable({ title, figures }: Result): void {
  const count = figures[0]?.rounds.length ?? 0;
  const rounds = Array.from({ length: count }, (_, index) => `round ${index + 1}`);
  print(
    title,
    ['', ...rounds, 'median', 'wanted'],
    figures.map(({ name, rounds, median, wanted }) => [
      name,
      ...rounds.map(format),
      format(median),
      judge(median, wanted),
    ]),
  );
}

/** Prints the results of several benches: the figures with a bound or a limit, and how they compare. */
export function printSummary(results: Result[]): void {
  const rows = results.flatMap(({ title, figures }) => {
    const compared = figures.filter(({ wanted, limit }) => wanted ?? limit);
    return compared.map(({ name, median, wanted, limit }, index) => [
      index === 0 ? title : '',
      name,
      format(median),
      judge(median, wanted),
      ...(limit ? [format(limit.median), format(median / limit.median), limit.name] : ['', '', '']),
    ]);
  });
  print('All figures, medians', ['', 'figure', 'ours', 'wanted', 'limit', 'ours / limit', 'the limit'], rows);
}

function print(title: string, head: string[], rows: string[][]): void {
  const widths = head.map((cell, column) => Math.max(cell.length, ...rows.map((row) => row[column]?.length ?? 0)));
  // text to the left, numbers to the right
  const isText = head.map((_, column) => rows.some((row) => /^[a-z]/i.test(row[column] ?? '')));
  const line = (cells: string[]) =>
    cells
      .map((cell, column) => (isText[column] ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0)))
      .join('  ')
      .trimEnd();
  console.log(`\n${title}\n${[head, ...rows].map(line).join('\n')}`);
}

function judge(value: number, bound: { most?: number; least?: number } | undefined): string {
  if (bound?.most !== undefined) return `≤ ${format(bound.most)} ${value <= bound.most ? 'yes' : 'NO'}`;
  if (bound?.least !== undefined) return `≥ ${format(bound.least)} ${value >= bound.least ? 'yes' : 'NO'}`;
  return '';
}

/** A number as tables show it. */
export function format(value: number): string {
  if (!Number.isFinite(value)) return '-';
  return Math.abs(value) >= 100 || Number.isInteger(value) ? value.toFixed(0) : value.toFixed(value < 10 ? 2 : 1);
}
