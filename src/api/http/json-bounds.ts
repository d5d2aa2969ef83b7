import { setImmediate as nextTurn } from 'node:timers/promises';
import { ApiError } from '../../contract/errors.ts';

/** What JSON text may hold at most. */
export interface JsonBounds {
  /** arrays and objects within each other */
  depth: number;
  /** keys and values together */
  nodes: number;
}

/** Marks between two turns of the event loop: a millisecond or two. */
const MARKS_PER_TURN = 20_000;

/**
 * Counts what JSON text holds before it is parsed: parsing and checking it takes time for each key and value, and nobody
 * else is served meanwhile. Takes time linear in the text, in turns. Text that is no JSON is left to the parser.
 * @throws ApiError invalid_parameters
 */
export async function checkJson(text: string, bounds: JsonBounds): Promise<void> {
  const marks = /["[\]{},:]/g;
  let depth = 0;
  let nodes = 0;
  let left = MARKS_PER_TURN;
  const turn = async () => {
    left = MARKS_PER_TURN;
    await nextTurn();
  };
  for (let mark = marks.exec(text); mark; mark = marks.exec(text)) {
    if (--left <= 0) await turn();
    if (mark[0] === '"') {
      let end = text.indexOf('"', marks.lastIndex);
      while (end >= 0 && isEscaped(text, end, marks.lastIndex)) {
        if (--left <= 0) await turn();
        end = text.indexOf('"', end + 1);
      }
      if (end < 0) return;
      marks.lastIndex = end + 1;
    } else if (mark[0] === ']' || mark[0] === '}') depth -= 1;
    else {
      // each key and each value but the first follows one of these
      nodes += 1;
      if (mark[0] === '[' || mark[0] === '{') depth += 1;
      if (depth > bounds.depth) throw refused(`the body is nested deeper than ${bounds.depth} levels`);
      if (nodes > bounds.nodes) throw refused(`the body holds more than ${bounds.nodes} keys and values`);
    }
  }
}

/** An odd number of backslashes is before the quote. */
function isEscaped(text: string, quote: number, start: number): boolean {
  let at = quote - 1;
  while (at >= start && text[at] === '\\') at -= 1;
  return (quote - 1 - at) % 2 === 1;
}

function refused(detail: string): ApiError {
  return new ApiError('invalid_parameters', detail);
}
