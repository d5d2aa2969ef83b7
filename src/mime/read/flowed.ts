/**
 * Text of format=flowed (RFC 3676) with its soft line breaks taken out: lines that end in a space go on in the next
 * one of the same quote depth. `deleteSpace` is DelSp=yes. Lines end in `\n`. mailparser's own decoder knows neither
 * quotes nor signatures: of `> a ` and `> b` it makes `> a > b`.
 */
export function decodeFlowed(text: string, deleteSpace: boolean): string {
  const lines: string[] = [];
  let paragraph: string[] = [];
  let openDepth: number | null = null;
  const finish = (): void => {
    if (openDepth !== null) lines.push(`${quote(openDepth)}${paragraph.join('')}`);
    paragraph = [];
    openDepth = null;
  };
  for (const line of text.split('\n')) {
    const depth = /^>*/.exec(line)?.[0].length ?? 0;
    const content = line.slice(line[depth] === ' ' ? depth + 1 : depth);
    const isSignature = content === '-- ';
    const isSoft = content.endsWith(' ') && !isSignature;
    if (openDepth !== null && (openDepth !== depth || isSignature)) finish();
    openDepth = depth;
    paragraph.push(isSoft && deleteSpace ? content.slice(0, -1) : content);
    if (!isSoft) finish();
  }
  finish();
  return lines.join('\n');
}

function quote(depth: number): string {
  return depth === 0 ? '' : `${'>'.repeat(depth)} `;
}
