/** The value below which a share `part` (0 to 1) of the numbers is; NaN of none. */
export function percentile(numbers: number[], part: number): number {
  const sorted = [...numbers].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.max(0, Math.ceil(part * sorted.length) - 1))] ?? Number.NaN;
}

export const median = (numbers: number[]): number => percentile(numbers, 0.5);

/** One round's figures by name; a bench gives the same names in each round. */
export type Figures = Record<string, number>;

/** What a figure must reach; `most` for times, `least` for rates. */
export type Bounds = Record<string, { most?: number; least?: number }>;

/** Prints a row per figure: each round, the median over the rounds, and the bound where there is one. */
export function printTable(title: string, rounds: Figures[], bounds: Bounds = {}): void {
  const names = Object.keys(rounds[0] ?? {});
  const rows = names.map((name) => {
    const values = rounds.map((round) => round[name] ?? Number.NaN);
    const middle = median(values);
    return [name, ...values.map(format), format(middle), judge(middle, bounds[name])];
  });
  const head = ['', ...rounds.map((_, index) => `round ${index + 1}`), 'median', 'wanted'];
  const widths = head.map((cell, column) => Math.max(cell.length, ...rows.map((row) => row[column]?.length ?? 0)));
  const line = (cells: string[]) =>
    cells
      .map((cell, column) => (column === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[column] ?? 0)))
      .join('  ');
  console.log(`\n${title}\n${[head, ...rows].map(line).join('\n')}`);
}

function judge(value: number, bound: { most?: number; least?: number } | undefined): string {
  if (bound?.most !== undefined) return `≤ ${format(bound.most)} ${value <= bound.most ? 'yes' : 'NO'}`;
  if (bound?.least !== undefined) return `≥ ${format(bound.least)} ${value >= bound.least ? 'yes' : 'NO'}`;
  return '';
}

function format(value: number): string {
  if (!Number.isFinite(value)) return '-';
  return Math.abs(value) >= 100 || Number.isInteger(value) ? value.toFixed(0) : value.toFixed(value < 10 ? 2 : 1);
}
