const BYTE_ORDER_MARK = Buffer.from([0xef, 0xbb, 0xbf]);
const FIRST_LOOK = 64 * 1024;

type Repair = 'none' | 'doubled' | 'bare';

/**
 * Repairs the line ends of a message, piece by piece, and removes a byte order mark before its first field. CR CR LF and
 * bare CR count as line ends only if the first line of the message ends so: in a valid message they may be content.
 */
export function createLineEndRepair(): (piece: Buffer, isLast: boolean) => Buffer {
  let repair: Repair | null = null;
  let held = Buffer.alloc(0);
  return (piece, isLast) => {
    let bytes = piece;
    if (repair === null) {
      if (bytes.subarray(0, 3).equals(BYTE_ORDER_MARK)) bytes = bytes.subarray(3);
      repair = repairOf(bytes);
    }
    if (repair === 'none') return bytes;
    // A line end may continue in the next piece.
    const all = Buffer.concat([held, bytes]);
    let end = all.length;
    while (!isLast && end > 0 && all[end - 1] === 0x0d) end -= 1;
    held = Buffer.from(all.subarray(end));
    const text = all.toString('latin1', 0, end);
    return Buffer.from(
      repair === 'doubled' ? text.replace(/(?<!\r)\r+\n/g, '\r\n') : text.replace(/\r\n?/g, '\n'),
      'latin1',
    );
  };
}

function repairOf(bytes: Buffer): Repair {
  const [end, next] = firstEnd(bytes.toString('latin1', 0, FIRST_LOOK));
  if (end === '\r\r\n') return 'doubled';
  return end === '\r' && /^([!-9;-~]{1,76}:|[ \t\r])/.test(next) ? 'bare' : 'none';
}

/** The first line end, and the start of the text after it. */
function firstEnd(text: string): [string, string] {
  const at = text.search(/[\r\n]/);
  const end = /^(\r\r\n|\r\n|\n|\r)/.exec(text.slice(at, at + 3))?.[0] ?? '';
  return [end, text.slice(at + end.length, at + end.length + 100)];
}
