/** The output of the start at the terminal; nothing else writes there. */
export interface Report {
  line(text: string): void;
  /**
   * Runs `work`; if it takes longer than 2 s, reports the progress and how long it took. `work` may name its current
   * step.
   */
  during<T>(what: string, work: (busyWith: (detail: string) => void) => Promise<T>): Promise<T>;
}

const QUIET_MS = 2000;
const PLAIN_EVERY_MS = 10_000;

/**
 * Writes to `out`: a line that is rewritten every second on a terminal, a new line every 10 s elsewhere. What cannot be written
 * (a full disk, a reader that has exited) is dropped.
 */
export function createReport(out: NodeJS.WriteStream): Report {
  out.off('error', ignore).on('error', ignore);
  const print = (text: string) => {
    try {
      out.write(text);
    } catch {
      // the stream of a file may throw
    }
  };
  return {
    line: (text) => print(`${text}\n`),
    during: async (what, work) => {
      const begin = performance.now();
      let detail = '';
      let shown = false;
      const seconds = () => `${Math.round((performance.now() - begin) / 1000)} s`;
      const show = () => {
        shown = true;
        const text = `${what} … ${seconds()}${detail === '' ? '' : ` (${detail})`}`;
        print(out.isTTY ? `\r\u001b[2K${text.slice(0, (out.columns || 80) - 1)}` : `${text}\n`);
      };
      let timer = setTimeout(() => {
        show();
        timer = setInterval(show, out.isTTY ? 1000 : PLAIN_EVERY_MS);
      }, QUIET_MS);
      const end = (word: string) => {
        clearTimeout(timer);
        if (shown) print(`${out.isTTY ? '\r\u001b[2K' : ''}${what}: ${word} after ${seconds()}\n`);
      };
      try {
        const result = await work((text) => (detail = text));
        end('done');
        return result;
      } catch (error) {
        end('failed');
        throw error;
      }
    },
  };
}

/** Without a listener, an error of the stream would end the process. */
function ignore(): void {}
