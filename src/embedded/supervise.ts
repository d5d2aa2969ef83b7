import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { ALIVE, ARE_YOU_ALIVE } from '../runtime/alive.ts';
import { StartFailure } from './failure.ts';
import { createOrphanGuard } from './orphan-guard.ts';
import { type LogFile, openLog } from './log-file.ts';
import { handleOf, type ProcessHandle } from '../runtime/process-handle.ts';
import { awaitingSettings, type Env, settingsMessage } from '../runtime/settings-message.ts';

/** One process of the product, as the supervisor runs it. */
export interface Part {
  name: string;
  command: string;
  args: string[];
  env: Env;
  cwd?: string;
  uid?: number;
  gid?: number;
  /** has a channel for messages of the child (Node only) */
  ipc?: boolean;
  /** sent over the channel when they are known: until then the child loads its modules */
  settings?: Promise<Env>;
  stopSignal: NodeJS.Signals;
  /** time to stop before SIGKILL */
  stopMs: number;
  /** time to become ready, once it has its settings, and since it said last that it is busy */
  readyMs: number;
  /** called before each start, the first one and restarts */
  beforeStart?(): Promise<void>;
  /**
   * Called every 50–250 ms after a start until it is true; `message`: the last one of the child. `busy`: it responds, and what it
   * does first, such as a recovery, may take any time.
   */
  isReady(message: unknown): Promise<boolean | 'busy'>;
  /** what was last in the way of being ready, for the line that says that it did not become so; undefined: unknown */
  problem?(): string | undefined;
}

export interface Supervisor {
  /** Starts a part and waits until it is ready; from then on restarts it whenever it exits. */
  start(part: Part): Promise<void>;
  /** Stops all parts: first those with a channel, then the servers that these use. */
  stop(): Promise<void>;
  /** The processes that run now. */
  handles(): ProcessHandle[];
}

export interface SupervisorOptions {
  /** the output of each part goes to `<name>.log` there */
  logDir: string;
  /** called with a line when a part exited unexpectedly and when it runs again */
  printLine(line: string): void;
  /** called whenever the set of processes changed */
  onChange?(handles: ProcessHandle[]): void;
  /** between two checks of a process with a channel, and how many it may miss; for tests */
  checkMs?: number;
  missedChecks?: number;
}

const FIRST_DELAY_MS = 200;
const MAX_DELAY_MS = 4000;
/** A part that ran this long was healthy: the next restart is quick again. */
const HEALTHY_MS = 30_000;
/**
 * A part that is started again has so many times as long to become ready: under overload it starts slowly, and would start from
 * the beginning each time.
 */
const PATIENCE = 5;
/** A process with a channel that leaves this many checks in a row unanswered is frozen. */
const MISSED_CHECKS = 12;
const CHECK_MS = 5_000;

/*
 * A part: starting → ready → (ended → waiting → starting → …) until stop.
 * A part that ends or stays unready before it was ever ready fails the start; one that was ready once is kept alive.
 */
interface Running {
  part: Part;
  log: LogFile;
  child: ChildProcess | undefined;
  /** the last message of the child over its channel */
  message: unknown;
  lastLines: string[];
}

/**
 * Keeps processes running. They have their own sessions, so that Ctrl-C reaches only the supervisor. If that is killed,
 * the orphan guard ends them; the next start (data-dir.ts) ends those that outlive both.
 */
export function createSupervisor(options: SupervisorOptions): Supervisor {
  const { logDir, printLine, onChange, checkMs = CHECK_MS, missedChecks = MISSED_CHECKS } = options;
  const parts: Running[] = [];
  const orphanGuard = createOrphanGuard();
  let stopping = false;

  const handles = () =>
    parts
      .map(({ child }) => (child?.pid === undefined ? undefined : handleOf(child.pid)))
      .filter((handle) => handle !== undefined);
  const update = () => {
    const now = handles();
    orphanGuard.guard(now.map(({ pid }) => pid));
    try {
      onChange?.(now);
    } catch (error) {
      // a full disk, on which parts end, must not end the supervisor too
      printLine(`could not record the processes: ${error instanceof Error ? error.message : String(error)}`);
    }
  };

  async function launch(running: Running): Promise<ChildProcess> {
    const { part, log } = running;
    await part.beforeStart?.();
    // nothing would stop it
    if (stopping) throw new StartFailure(`${part.name} is not started: everything is being stopped.`);
    const { command, args, cwd, uid, gid } = part;
    const env = part.settings ? awaitingSettings(part.env) : part.env;
    // only the owner may read the files that a part makes
    const umask = process.umask(0o077);
    const child = spawn(command, args, {
      env,
      detached: true,
      stdio: part.ipc === true ? ['ignore', 'pipe', 'pipe', 'ipc'] : ['ignore', 'pipe', 'pipe'],
      ...(cwd === undefined ? {} : { cwd }),
      ...(uid === undefined ? {} : { uid }),
      ...(gid === undefined ? {} : { gid }),
    });
    process.umask(umask);
    running.message = undefined;
    running.lastLines = [];
    for (const stream of [child.stdout, child.stderr]) {
      stream?.on('data', (chunk: Buffer) => {
        log.write(chunk);
        const text = chunk.toString();
        running.lastLines = lastOf([...running.lastLines, ...text.split('\n').filter(Boolean)]);
      });
    }
    child.on('message', (message) => {
      if (message !== ALIVE) running.message = message;
    });
    child.on('error', (error) => (running.lastLines = [error.message]));
    running.child = child;
    void sendSettings(part, child);
    update();
    return child;
  }

  /** Counts checks, not time: after a pause of the whole machine the child has time to answer. */
  function endIfFrozen({ part }: Running, child: ChildProcess): NodeJS.Timeout {
    let missed = 0;
    child.on('message', (message) => {
      if (message === ALIVE) missed = 0;
    });
    return setInterval(() => {
      if (stopping || hasEnded(child) || !child.connected) return;
      if (missed++ < missedChecks) return void child.send(ARE_YOU_ALIVE, () => {});
      printLine(`${part.name} does not respond; restarting it`);
      child.kill('SIGKILL');
    }, checkMs);
  }

  async function untilReady(running: Running, child: ChildProcess, readyMs: number): Promise<void> {
    const { part } = running;
    await part.settings;
    let deadline = performance.now() + readyMs;
    for (let wait = 50; !stopping; wait = Math.min(250, wait + 25)) {
      if (hasEnded(child)) {
        // its last output may not have been read yet
        await sleep(50);
        throw new StartFailure(`${part.name} exited: ${reasonOf(running)} (log: ${running.log.path})`);
      }
      const ready = await part.isReady(running.message);
      if (ready === true) return;
      if (ready === 'busy') deadline = performance.now() + readyMs;
      if (performance.now() > deadline) {
        const problem = part.problem?.();
        const reason = problem === undefined ? '' : `: ${problem}`;
        throw new StartFailure(
          `${part.name} was not ready after ${readyMs / 1000} s${reason} (log: ${running.log.path})`,
        );
      }
      await sleep(wait);
    }
  }

  /** Restarts the part whenever its child exits. */
  async function keepAlive(running: Running, first: ChildProcess): Promise<void> {
    const { part } = running;
    let child = first;
    let delay = FIRST_DELAY_MS;
    for (;;) {
      const began = performance.now();
      const checks = part.ipc === true ? endIfFrozen(running, child) : undefined;
      if (!hasEnded(child)) await once(child, 'exit');
      clearInterval(checks);
      if (stopping) return;
      update();
      if (performance.now() - began > HEALTHY_MS) delay = FIRST_DELAY_MS;
      const how = child.signalCode ?? `exit code ${child.exitCode ?? 'unknown'}`;
      printLine(`${part.name} exited (${how}); restarting it (log: ${running.log.path})`);
      await sleep(delay);
      delay = Math.min(MAX_DELAY_MS, delay * 2);
      if (stopping) return;
      try {
        child = await launch(running);
        await untilReady(running, child, PATIENCE * part.readyMs);
        if (!stopping) printLine(`${part.name} runs again`);
      } catch (error) {
        if (stopping) return;
        printLine(error instanceof Error ? error.message : String(error));
        // a part that hangs before it is ready is restarted too
        if (running.child !== undefined && !hasEnded(running.child)) await end(running.child, part);
      }
    }
  }

  return {
    handles,
    async start(part) {
      const running: Running = {
        part,
        log: openLog(logDir, part.name),
        child: undefined,
        message: undefined,
        lastLines: [],
      };
      parts.push(running);
      const child = await launch(running);
      try {
        await untilReady(running, child, part.readyMs);
      } catch (error) {
        // it may be started again in another way
        if (hasEnded(child)) {
          parts.splice(parts.indexOf(running), 1);
          running.log.close();
        }
        throw error;
      }
      // it reports each failure itself and returns only when stopping
      void keepAlive(running, child);
    },
    async stop() {
      stopping = true;
      for (const group of groupsToStop(parts)) {
        await Promise.all(group.flatMap(({ child, part }) => (child === undefined ? [] : [end(child, part)])));
      }
      orphanGuard.release();
      for (const { log } of parts) log.close();
    },
  };
}

/** The parts with a channel (API and worker) use the others and stop before them. */
function groupsToStop(parts: Running[]): Running[][] {
  return [true, false].map((ipc) => parts.filter(({ part }) => (part.ipc ?? false) === ipc));
}

async function sendSettings({ settings }: Part, child: ChildProcess): Promise<void> {
  // the caller that waits for the part to be ready reports the failure
  const known = await settings?.catch(() => undefined);
  if (known !== undefined && child.connected) child.send(settingsMessage(known), () => {});
}

function hasEnded(child: ChildProcess): boolean {
  return child.pid === undefined || child.exitCode !== null || child.signalCode !== null;
}

async function end(child: ChildProcess, part: Part): Promise<void> {
  if (hasEnded(child)) return;
  const exited = once(child, 'exit');
  child.kill(part.stopSignal);
  const timer = setTimeout(() => child.kill('SIGKILL'), part.stopMs);
  await exited;
  clearTimeout(timer);
}

const PANIC = 'panic: ';

/** The last lines that may say why a process exits. A program in Go prints a long stack after its reason. */
function lastOf(lines: string[]): string[] {
  const panic = lines.findIndex((line) => line.startsWith(PANIC));
  return (panic < 0 ? lines : lines.slice(0, panic + 1)).slice(-5);
}

/**
 * The most likely reason why a process exited: its last line, or the message and the error in it if it is a log line. A panic
 * often follows from the error above it.
 */
function reasonOf({ lastLines, child }: Running): string {
  const isReason = (text: string) => /fatal|error|cannot|fail/i.test(text) && !text.startsWith(PANIC);
  const line = lastLines.findLast(isReason) ?? lastLines.at(-1);
  if (line === undefined) return child?.signalCode ?? `exit code ${child?.exitCode ?? 'unknown'}`;
  const field = (name: string) => new RegExp(`"${name}":"((?:[^"\\\\]|\\\\.)*)"`).exec(line)?.[1];
  const [message, error] = [field('msg'), field('error')];
  const reason = message !== undefined && error !== undefined ? `${message}: ${error}` : (message ?? line);
  return reason.slice(0, 300);
}
