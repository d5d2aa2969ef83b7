import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

/** One process. Its start time distinguishes it from a later process with the same pid. */
export interface ProcessHandle {
  pid: number;
  began: string;
}

/** The handle of a process that runs now; undefined when no process has that pid. */
export function handleOf(pid: number): ProcessHandle | undefined {
  const began = startTimeOf(pid);
  return began === undefined ? undefined : { pid, began };
}

/** Whether the process of the handle still runs. */
export function isRunning(handle: ProcessHandle): boolean {
  return startTimeOf(handle.pid) === handle.began;
}

/** The command line of a process; empty when it does not exist. */
export function commandOf(pid: number): string {
  return process.platform === 'linux'
    ? (readProc(pid, 'cmdline')?.replaceAll('\0', ' ') ?? '')
    : (ps(pid, 'command=') ?? '');
}

/**
 * Signals the process of the handle and waits until it has exited; SIGKILL after `graceMs`. Does nothing when it has
 * already exited.
 */
export async function endProcess(handle: ProcessHandle, signal: NodeJS.Signals, graceMs: number): Promise<void> {
  const deadline = performance.now() + graceMs;
  send(handle, signal);
  while (isRunning(handle)) {
    if (performance.now() > deadline) send(handle, 'SIGKILL');
    await new Promise((resolve) => setTimeout(resolve, 50));
    if (performance.now() > deadline + 5000) throw new Error(`process ${handle.pid} cannot be ended`);
  }
}

function send(handle: ProcessHandle, signal: NodeJS.Signals): void {
  if (!isRunning(handle)) return;
  try {
    process.kill(handle.pid, signal);
  } catch {
    // it ended after the check, or belongs to another user: the caller waits and sees
  }
}

function startTimeOf(pid: number): string | undefined {
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
