import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

/** A message as Python's email package reads it (policy `default`, which decodes headers as RFC 2047 and 2231 say). */
export interface PythonMail {
  /** name in lower case, and value, decoded */
  headers: [string, string][];
  /** defects that Python found, in the message and all its parts */
  defects: string[];
  /** display name and address, by header */
  addresses: Record<string, [string, string][]>;
  /** the tree: multiparts and leaves, in order, depth first */
  parts: PythonPart[];
}

export interface PythonPart {
  type: string;
  /** type of the multipart that it is in */
  parent: string | null;
  charset: string | null;
  disposition: string | null;
  filename: string | null;
  cid: string | null;
  /** the text of a text part, decoded; its line ends are `\n` */
  text: string | null;
  /** the decoded bytes of a leaf, in base64; of an embedded message its bytes as they are there */
  content: string | null;
}

const SCRIPT = `
import base64, email, email.policy, json, sys

def defects_of(part):
    return [type(d).__name__ for d in part.defects]

def describe(part, parent, found, defects):
    kind = part.get_content_type()
    defects += defects_of(part)
    is_leaf = not part.is_multipart()
    text = part.get_content().replace('\\r\\n', '\\n') if is_leaf and kind.startswith('text/') else None
    content = None
    if kind == 'message/rfc822':
        content = part.get_payload(0).as_bytes(policy=email.policy.SMTP)
    elif is_leaf:
        content = part.get_payload(decode=True)
    found.append({
        'type': kind,
        'parent': parent,
        'charset': part.get_content_charset(),
        'disposition': part.get_content_disposition(),
        'filename': part.get_filename(),
        'cid': part.get('content-id'),
        'text': text,
        'content': None if content is None else base64.b64encode(content).decode(),
    })
    if part.is_multipart() and kind != 'message/rfc822':
        for child in part.iter_parts():
            describe(child, kind, found, defects)

def read(source):
    message = email.message_from_bytes(source, policy=email.policy.default)
    parts, defects, addresses = [], [], {}
    describe(message, None, parts, defects)
    for name in ('from', 'to', 'cc', 'bcc', 'reply-to'):
        for value in message.get_all(name, []):
            addresses[name] = addresses.get(name, []) + [[a.display_name, a.addr_spec] for a in value.addresses]
    for value in message.values():
        defects += defects_of(value) if hasattr(value, 'defects') else []
    headers = [[k.lower(), str(v)] for k, v in message.items()]
    return {'headers': headers, 'defects': defects, 'addresses': addresses, 'parts': parts}

for line in sys.stdin.buffer:
    print(json.dumps(read(sys.stdin.buffer.read(int(line)))), flush=True)
`;

/** Python, ready to read messages one after the other. */
export interface PythonReader {
  read(source: Buffer): Promise<PythonMail>;
  close(): Promise<void>;
}

/** Starts Python. @throws (from `read`) when `python3` is missing or fails */
export function startPython(): PythonReader {
  const python: ChildProcess = spawn('python3', ['-I', '-c', SCRIPT], { stdio: ['pipe', 'pipe', 'inherit'] });
  const ended = once(python, 'close');
  const { stdin, stdout } = python;
  if (!stdin || !stdout) throw new Error('python3 has no pipes');
  const lines = createInterface({ input: stdout })[Symbol.asyncIterator]();
  stdin.on('error', () => {});
  let last: Promise<unknown> = Promise.resolve();

  async function readNext(source: Buffer): Promise<PythonMail> {
    stdin?.write(`${source.length}\n`);
    stdin?.write(source);
    const answer = await Promise.race([lines.next(), ended.then(() => ({ done: true, value: '' }))]);
    if (answer.done) throw new Error('python3 ended: it is missing, or could not read the message');
    return JSON.parse(answer.value) as PythonMail;
  }

  return {
    read: (source) => {
      const next = last.then(() => readNext(source));
      last = next.catch(() => {});
      return next;
    },
    close: async () => {
      stdin.end();
      await ended;
    },
  };
}
