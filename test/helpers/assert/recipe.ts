import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { projectRoot } from '../../../src/runtime/project-root.ts';

/** The languages that every step of a page is written in. */
export type Language = 'sh' | 'js';

/** A fenced block of a page: lines to run, or the output or effect of the lines before it. */
export interface Block {
  kind: Language | 'json' | 'event' | 'text';
  text: string;
}

/** The blocks of a page of docs/recipes, in order. */
export async function readBlocks(page: string): Promise<Block[]> {
  const text = await readFile(join(projectRoot(), 'docs', 'recipes', page), 'utf8');
  return [...text.matchAll(/^```(\w+)( event)?\n(.*?)^```$/gms)].map(([, kind, event, lines]) => ({
    kind: (event ? 'event' : kind) as Block['kind'],
    text: lines ?? '',
  }));
}

/** Runs blocks in sequence as a reader would paste them: each sees the variables of the previous ones. */
export interface Session {
  /** runs the next block and returns its output */
  run(): Promise<string>;
  end(): void;
}

const MARK = '@@done@@';

/** Starts the interpreter of a recipe. @param blocks in order; the output of the first, the set-up, is ignored */
export function startSession(language: Language, blocks: string[], env: Record<string, string>, cwd: string): Session {
  const script = language === 'sh' ? shScript(blocks) : jsScript(blocks);
  const args = language === 'sh' ? ['-c', script] : ['--input-type=module', '-e', script];
  const command = language === 'sh' ? 'bash' : process.execPath;
  const child = spawn(command, args, { cwd, env: { ...process.env, ...env } });
  const read = reader(child);
  return {
    run: () => {
      child.stdin.write('\n');
      return read();
    },
    end: () => child.kill('SIGKILL'),
  };
}

function shScript([setup = '', ...blocks]: string[]): string {
  return ['set -euo pipefail', setup, ...blocks.map((block) => `read -r\n${block}\nprintf '\\n${MARK}\\n'`)].join('\n');
}

/** A script that prints JSON, to compare it with the output of curl. */
function jsScript([setup = '', ...blocks]: string[]): string {
  const head = `
    import { createInterface } from 'node:readline';
    const waiting = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
    const { log } = console;
    console.log = (value) => log(typeof value === 'string' ? value : JSON.stringify(value));`;
  const steps = blocks.map((block) => `await waiting.next();\n${block}\nlog('\\n${MARK}');`);
  return [head, setup, ...steps, 'process.exit(0);'].join('\n');
}

/** Waits for the end of a block; returns its output. */
function reader(child: ChildProcessWithoutNullStreams): () => Promise<string> {
  let printed = '';
  let problem = '';
  let ended = false;
  let wake = () => {};
  child.stdout.on('data', (bytes: Buffer) => {
    printed += bytes.toString();
    wake();
  });
  child.stderr.on('data', (bytes: Buffer) => {
    problem += bytes.toString();
  });
  child.on('close', () => {
    ended = true;
    wake();
  });
  return async () => {
    const timer = setTimeout(() => child.kill('SIGKILL'), 30_000);
    try {
      while (!printed.includes(`${MARK}\n`)) {
        if (ended) throw new Error(`a block did not come to its end\n${printed}\n${problem}`);
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    } finally {
      clearTimeout(timer);
    }
    const [output = '', ...rest] = printed.split(`${MARK}\n`);
    printed = rest.join(`${MARK}\n`);
    return output.trim();
  };
}

/** Matches JSON as the page shows it; `…` matches anything. */
export function patternOf(shown: string): RegExp {
  const compact = shown.replace(/"(?:[^"\\]|\\.)*"|\s+/g, (token) => (token.startsWith('"') ? token : ''));
  const pattern = compact.split('…').map((text) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  return new RegExp(`^${pattern.join('.*')}$`, 's');
}
