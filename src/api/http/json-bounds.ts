import { setImmediate as nextTurn } from 'node:timers/promises';
import { ApiError } from '../../contract/errors.ts';

/** Upper bounds of JSON text. */
export interface JsonBounds {
  /** levels of nested arrays and objects */
  depth: number;
  /** keys and values together */
  nodes: number;
}

/** Structural characters per turn of the event loop: a millisecond or two. */
const MARKS_PER_TURN = 20_000;

/**
 * Checks JSON text before it is parsed, since parsing and validating block the event loop for each key and value. Takes
 * linear time and yields to the event loop. Malformed JSON passes; the parser rejects it.
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
      // each key and each value except the first follows one of these
      nodes += 1;
      if (mark[0] === '[' || mark[0] === '{') depth += 1;
      if (depth > bounds.depth) throw refused(`the body is nested deeper than ${bounds.depth} levels`);
      if (nodes > bounds.nodes) throw refused(`the body contains more than ${bounds.nodes} keys and values`);
    }
  }
}

/** Whether an odd number of backslashes precedes the quote. */
function isEscaped(text: string, quote: number, start: number): boolean {
  let at = quote - 1;
  while (at >= start && text[at] === '\\') at -= 1;
  return (quote - 1 - at) % 2 === 1;
}

function refused(detail: string): ApiError {
  return new ApiError('invalid_parameters', detail);
}
