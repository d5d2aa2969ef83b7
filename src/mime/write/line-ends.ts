const CR = 0x0d;
const LF = 0x0a;
const MAX_LINE = 998;

/** Text or bytes with every line end, CR and LF on their own too, as CRLF. Bytes that have only those are not copied. */
export function toCrlf(text: string): string;
export function toCrlf(bytes: Buffer): Buffer;
export function toCrlf(content: string | Buffer): string | Buffer {
  if (typeof content === 'string') return content.replace(/\r\n|\r|\n/g, '\r\n');
  const bare = countBare(content);
  if (bare === 0) return content;
  const result = Buffer.allocUnsafe(content.length + bare);
  let to = 0;
  let from = 0;
  let lf = content.indexOf(LF);
  let cr = content.indexOf(CR);
  while (lf >= 0 || cr >= 0) {
    const at = lf < 0 || (cr >= 0 && cr < lf) ? cr : lf;
    to += content.copy(result, to, from, at);
    result[to++] = CR;
    result[to++] = LF;
    from = at + (content[at] === CR && content[at + 1] === LF ? 2 : 1);
    if (lf >= 0 && lf < from) lf = content.indexOf(LF, from);
    if (cr >= 0 && cr < from) cr = content.indexOf(CR, from);
  }
  content.copy(result, to, from);
  return result;
}

/** Whether a line of these bytes, which end in CRLF, is longer than SMTP takes (998 octets, RFC 5321 4.5.3.1.6). */
export function hasLongLine(bytes: Buffer): boolean {
  let start = 0;
  while (bytes.length - start > MAX_LINE) {
    const next = bytes.indexOf(LF, start);
    const end = next < 0 ? bytes.length : bytes[next - 1] === CR ? next - 1 : next;
    if (end - start > MAX_LINE) return true;
    if (next < 0) return false;
    start = next + 1;
  }
  return false;
}

/** CRs and LFs that stand alone. */
function countBare(bytes: Buffer): number {
  let count = 0;
  for (let at = bytes.indexOf(LF); at >= 0; at = bytes.indexOf(LF, at + 1)) if (bytes[at - 1] !== CR) count += 1;
  for (let at = bytes.indexOf(CR); at >= 0; at = bytes.indexOf(CR, at + 1)) if (bytes[at + 1] !== LF) count += 1;
  return count;
}
