import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

/** One process, told apart from a later one with the same pid by when it began. */
export interface ProcessMark {
  pid: number;
  began: string;
}

/** Marks a process that runs now; undefined when there is none with that pid. */
export function markOf(pid: number): ProcessMark | undefined {
  const began = beginOf(pid);
  return began === undefined ? undefined : { pid, began };
}

/** Whether that very process still runs. */
export function isRunning(mark: ProcessMark): boolean {
  return beginOf(mark.pid) === mark.began;
}

/** The command line of a process; empty when it is gone. */
export function commandOf(pid: number): string {
  return process.platform === 'linux'
    ? (readProc(pid, 'cmdline')?.replaceAll('\0', ' ') ?? '')
    : (ps(pid, 'command=') ?? '');
}

/** Signals that process and waits until it is gone; SIGKILL after `graceMs`. Does nothing when it is gone already. */
export async function endProcess(mark: ProcessMark, signal: NodeJS.Signals, graceMs: number): Promise<void> {
  const deadline = Date.now() + graceMs;
  send(mark, signal);
  while (isRunning(mark)) {
    if (Date.now() > deadline) send(mark, 'SIGKILL');
    await new Promise((resolve) => setTimeout(resolve, 50));
    if (Date.now() > deadline + 5000) throw new Error(`process ${mark.pid} cannot be ended`);
  }
}

function send(mark: ProcessMark, signal: NodeJS.Signals): void {
  if (!isRunning(mark)) return;
  try {
    process.kill(mark.pid, signal);
  } catch {
    // it ended between the look and the signal, or it belongs to somebody else: the caller's wait tells
  }
}

function beginOf(pid: number): string | undefined {
  if (process.platform !== 'linux') return ps(pid, 'lstart=');
  // proc(5): field 22 is the start time; the second field, the name in parentheses, may hold spaces
  const fields = readProc(pid, 'stat')
    ?.replace(/^.*\) /s, '')
    .split(' ');
  return fields === undefined || fields[0] === 'Z' ? undefined : fields[19];
}

function readProc(pid: number, file: string): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8');
  } catch {
    return undefined;
  }
}

function ps(pid: number, format: string): string | undefined {
  try {
    return execFileSync('ps', ['-p', String(pid), '-o', format], { encoding: 'utf8' }).trim() || undefined;
  } catch {
    return undefined;
  }
}
