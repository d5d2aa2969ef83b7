import type { MimeNode } from '@zone-eu/mailsplit';

/** A leaf of the MIME tree (RFC 2045, 2046), its content decoded. Embedded messages are leaves. */
export interface Part {
  /** what the part is for: body text, or a file */
  role: 'plain' | 'html' | 'file';
  mime: string;
  /** Content-Type as written, with its parameters; '' when there is none */
  declared: string;
  charset: string | null;
  /** RFC 3676 */
  flowed: boolean;
  deleteSpace: boolean;
  disposition: string | null;
  inAlternative: boolean;
  filename: string | null;
  /** Content-ID without its angle brackets */
  cid: string | null;
  /** it has a cid and is in a multipart/related */
  inRelated: boolean;
  size: number;
  content: Buffer | { path: string };
}

/** A leaf as its header describes it. `before` are the parts before it. mailparser fills in the rest. */
export function describePart(node: MimeNode, before: readonly Part[]): Part {
  const mime = mimeOf(node);
  const disposition = node.disposition || null;
  const inAlternative = ancestorsOf(node).includes('multipart/alternative');
  const isText = (mime === 'text/plain' || mime === 'text/html') && (disposition === null || disposition === 'inline');
  // A named text next to a body is a file: so Apple Mail sends text files.
  const isFile = !isText || (Boolean(node.filename) && !inAlternative && before.some((part) => part.role !== 'file'));
  return {
    role: isFile ? 'file' : mime === 'text/html' ? 'html' : 'plain',
    mime,
    declared: node.headers ? node.headers.getFirst('content-type') : '',
    charset: node.charset || null,
    flowed: node.flowed,
    deleteSpace: node.delSp,
    disposition,
    inAlternative,
    filename: null,
    cid: null,
    inRelated: false,
    size: 0,
    content: Buffer.alloc(0),
  };
}

/** A Content-Type that is no media type counts as text (RFC 2045 5.2) or as bytes; parts of a digest are messages. */
function mimeOf(node: MimeNode): string {
  const declared = node.contentType || '';
  const parent = node.parentNode;
  const isDeclared = node.headers && node.headers.hasHeader('content-type');
  if (!isDeclared && parent && parent.multipart === 'digest') return 'message/rfc822';
  if (/^[a-z0-9!#$&^_.+-]{1,100}\/[a-z0-9!#$&^_.+-]{1,100}$/.test(declared)) return declared;
  return node.disposition === 'attachment' ? 'application/octet-stream' : 'text/plain';
}

function ancestorsOf(node: MimeNode): string[] {
  const types: string[] = [];
  for (let parent = node.parentNode; parent; parent = parent.parentNode) types.push(parent.contentType || '');
  return types;
}
