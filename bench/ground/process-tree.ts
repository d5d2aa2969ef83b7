import { readdirSync, readFileSync } from 'node:fs';

/** Resources that one process has used. */
export interface ProcessUse {
  pid: number;
  name: string;
  /** of itself and of its children that have ended, ms */
  cpuMs: number;
  rssBytes: number;
  /** resident memory, pages shared by n processes counted for one n-th each */
  pssBytes: number;
}

/** Clock ticks of /proc are hundredths of a second on every Linux that Node runs on. */
const MS_PER_TICK = 10;

/** Every process below and including `root`. */
export function processTree(root: number): ProcessUse[] {
  const all = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => readStat(Number(pid)));
  const inTree = new Set([root]);
  for (let grown = true; grown; ) {
    grown = false;
    for (const { pid, parent } of all) {
      if (inTree.has(parent) && !inTree.has(pid)) grown = inTree.add(pid).size > 0;
    }
  }
  return all
    .filter(({ pid }) => inTree.has(pid))
    .map(({ pid, cpuMs }) => ({ pid, name: nameOf(pid), cpuMs, ...memoryOf(pid) }));
}

/** CPU of a whole tree since it began, ms. */
export function cpuMsOf(root: number): number {
  return processTree(root).reduce((sum, { cpuMs }) => sum + cpuMs, 0);
}

/** Adds up the processes of each part of the product: `start`, `worker`, `server`, `postgres`, `temporal`. */
export function byPart(processes: ProcessUse[]): Map<string, Omit<ProcessUse, 'pid' | 'name'>> {
  const parts = new Map<string, Omit<ProcessUse, 'pid' | 'name'>>();
  for (const { name, cpuMs, rssBytes, pssBytes } of processes) {
    const sum = parts.get(name) ?? { cpuMs: 0, rssBytes: 0, pssBytes: 0 };
    parts.set(name, {
      cpuMs: sum.cpuMs + cpuMs,
      rssBytes: sum.rssBytes + rssBytes,
      pssBytes: sum.pssBytes + pssBytes,
    });
  }
  return parts;
}

type Parts = ReturnType<typeof byPart>;

/** CPU ms for each of `count` things, of the whole product as `name`, and of its parts below it. */
export function cpuOfParts(
  name: string,
  { before, after, count }: { before: Parts; after: Parts; count: number },
): Record<string, number> {
  const parts = [...after].map(
    ([part, { cpuMs }]) => [part, (cpuMs - (before.get(part)?.cpuMs ?? 0)) / count] as const,
  );
  return {
    [name]: parts.reduce((sum, [, cpuMs]) => sum + cpuMs, 0),
    ...Object.fromEntries(parts.map(([part, cpuMs]) => [`  of it ${part}`, cpuMs])),
  };
}

function readStat(pid: number): { pid: number; parent: number; cpuMs: number }[] {
  const text = readOr(`/proc/${pid}/stat`, '');
  if (text === '') return [];
  // the name in brackets may hold spaces
  const fields = text
    .slice(text.lastIndexOf(')') + 2)
    .split(' ')
    .map(Number);
  const ticks = [11, 12, 13, 14].reduce((sum, index) => sum + (fields[index] ?? 0), 0);
  return [{ pid, parent: fields[1] ?? 0, cpuMs: ticks * MS_PER_TICK }];
}

function nameOf(pid: number): string {
  const command = readOr(`/proc/${pid}/cmdline`, '').replaceAll('\0', ' ');
  for (const part of ['worker', 'server', 'start'] as const) {
    if (command.includes(`dist/${part}.js`)) return part;
  }
  if (/postgres/.test(command)) return 'postgres';
  if (/temporal/.test(command)) return 'temporal';
  if (/redis-server/.test(command)) return 'redis';
  if (command.startsWith('emailengine')) return 'emailengine';
  return 'other';
}

function memoryOf(pid: number): { rssBytes: number; pssBytes: number } {
  const text = readOr(`/proc/${pid}/smaps_rollup`, '');
  const kilobytes = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(text)?.[1] ?? 0);
  return { rssBytes: kilobytes('Rss') * 1024, pssBytes: kilobytes('Pss') * 1024 };
}

function readOr(path: string, fallback: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return fallback;
  }
}
