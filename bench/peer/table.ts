import { format, type Measured, type Result } from '../figures.ts';

/** A row of the comparison, as the figures name it: `SIDE: ROW: UNIT`, and `SIDE: ROW: CPU ms, PART` of its processes. */
interface Row {
  /** by unit, then by side */
  units: Map<string, Map<string, Measured>>;
  /** the CPU by side */
  cpu: Map<string, Cpu>;
}

interface Cpu {
  all: number;
  parts: [string, number][];
}

/** A part below this share of all has no mention. */
const MENTIONED = 0.01;

/**
 * Prints both sides next to each other, in Markdown: medians with the least and the most of the rounds, their ratio, and the
 * CPU of each by process. Faults are printed where one side has them.
 */
export function printSides({ title, figures }: Result): void {
  const sides = [...new Set(figures.map(({ name }) => partsOf(name).side))];
  const head = ['Figure', ...sides, 'Ratio', ...sides.map((side) => `CPU ms each, ${side}`)];
  const lines = [...rowsOf(figures)].flatMap(([row, { units, cpu }]) =>
    [...units]
      .filter(([unit, bySide]) => isMeasure(unit) || [...bySide.values()].some(({ median }) => median !== 0))
      .map(([unit, bySide], index) => {
        const medians = sides.map((side) => bySide.get(side)?.median ?? Number.NaN);
        const cpus = sides.map((side) => (index === 0 ? cpuText(cpu.get(side)) : ''));
        const ratio = format((medians[0] ?? 0) / (medians[1] ?? 0));
        return [`${row}: ${unit}`, ...sides.map((side) => rangeOf(bySide.get(side))), ratio, ...cpus];
      }),
  );
  const table = [head, ...lines].map((cells) => `| ${cells.join(' | ')} |`);
  table.splice(1, 0, `|${'-|'.repeat(head.length)}`);
  console.log(`\n${title}\n\n${table.join('\n')}`);
}

const isMeasure = (unit: string): boolean => /\/s$|, ms$/.test(unit);

function rowsOf(figures: Measured[]): Map<string, Row> {
  const rows = new Map<string, Row>();
  for (const figure of figures) {
    const { side, row: name, unit } = partsOf(figure.name);
    const row = rows.get(name) ?? { units: new Map(), cpu: new Map() };
    rows.set(name, row);
    const cpu: Cpu = row.cpu.get(side) ?? { all: Number.NaN, parts: [] };
    const [, part] = /^CPU ms(?:, (.*))?$/.exec(unit) ?? [];
    if (part !== undefined) cpu.parts.push([part, figure.median]);
    else if (unit === 'CPU ms') cpu.all = figure.median;
    else row.units.set(unit, (row.units.get(unit) ?? new Map<string, Measured>()).set(side, figure));
    row.cpu.set(side, cpu);
  }
  return rows;
}

function partsOf(name: string): { side: string; row: string; unit: string } {
  const [side = '', row = '', unit = ''] = name.split(': ');
  return { side, row, unit };
}

function cpuText(cpu: Cpu | undefined): string {
  if (!cpu) return '';
  const parts = cpu.parts.filter(([, ms]) => ms > MENTIONED * cpu.all).sort(([, a], [, b]) => b - a);
  return `${format(cpu.all)} (${parts.map(([part, ms]) => `${part} ${format(ms)}`).join(', ')})`;
}

function rangeOf(figure: Measured | undefined): string {
  if (!figure) return '';
  const { median, rounds } = figure;
  if (rounds.length === 1) return format(median);
  return `${format(median)} (${format(Math.min(...rounds))}–${format(Math.max(...rounds))})`;
}
