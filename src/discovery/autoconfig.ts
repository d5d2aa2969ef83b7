import { request } from 'node:https';
import { isIP } from 'node:net';
import { Parser } from 'htmlparser2';
import type { Outbound } from '../security/outbound.ts';
import type { ServerAddress } from './providers.ts';

/** The IMAP and the SMTP server that an autoconfig document names. */
export interface Autoconfig {
  imap?: ServerAddress;
  smtp?: ServerAddress;
}

const MAX_DOCUMENT_BYTES = 256 * 1024;

/**
 * Fetches a document over HTTPS from a vetted address: 200 only, no redirects, at most 256 KiB, within `timeoutMs`.
 * Undefined when it cannot be fetched. `ca` is for tests.
 */
export async function fetchDocument(
  url: string,
  options: { outbound: Outbound; timeoutMs: number; ca?: string | Buffer },
): Promise<string | undefined> {
  const signal = AbortSignal.timeout(options.timeoutMs);
  try {
    const { hostname, port, pathname, search, host } = new URL(url);
    const [target] = await options.outbound.resolve(hostname);
    if (!target || signal.aborted) return undefined;
    return await new Promise<string | undefined>((resolve, reject) => {
      const call = request(
        {
          host: target.address,
          port: port || 443,
          path: pathname + search,
          headers: { host, accept: 'application/xml, text/xml' },
          ...(isIP(hostname) ? {} : { servername: hostname }),
          ...(options.ca ? { ca: options.ca } : {}),
          agent: false,
          signal,
        },
        (response) => {
          if (response.statusCode !== 200) {
            call.destroy();
            resolve(undefined);
            return;
          }
          const chunks: Buffer[] = [];
          let size = 0;
          response.on('data', (chunk: Buffer) => {
            size += chunk.length;
            if (size > MAX_DOCUMENT_BYTES) call.destroy(new Error('too large'));
            else chunks.push(chunk);
          });
          response.on('end', () => resolve(Buffer.concat(chunks).toString('utf8')));
          response.on('error', reject);
        },
      );
      // also when the server switches protocols (101), of which Node reports no error
      call.on('close', () => resolve(undefined));
      call.on('error', reject).end();
    });
  } catch {
    // Unknown host, missing document, bad certificate, too slow: the next source is asked in each case.
    return undefined;
  }
}

/** More than any real document has; the parser's time grows with the depth. */
const MAX_DEPTH = 32;
const MAX_TEXT = 1_000;

type Side = keyof Autoconfig;
const SIDES: Readonly<Record<string, Side | undefined>> = {
  'incomingServer imap': 'imap',
  'outgoingServer smtp': 'smtp',
};
const FIELDS = ['hostname', 'port', 'socketType', 'username'] as const;
type Field = (typeof FIELDS)[number];

/**
 * Reads Thunderbird's autoconfig format, version 1.1: the first IMAP and the first SMTP server with TLS. The document is
 * not trusted: entities that it defines itself are not expanded, and one nested too deeply has no result.
 */
export function parseAutoconfig(xml: string, address: string): Autoconfig {
  const config: Autoconfig = {};
  let depth = 0;
  /** the current server element and its depth */
  let server: { side: Side | undefined; depth: number; texts: Partial<Record<Field, string>> } | undefined;
  let field: Field | undefined;
  const parser = new Parser(
    {
      onopentag(name, { type = '' }) {
        if (++depth > MAX_DEPTH) throw new TooDeep();
        if (server) {
          const isField = depth === server.depth + 1 && server.texts[name as Field] === undefined;
          field = isField ? FIELDS.find((each) => each === name) : undefined;
        } else if (name === 'incomingServer' || name === 'outgoingServer') {
          server = { side: SIDES[`${name} ${type.toLowerCase()}`], depth, texts: {} };
        }
      },
      ontext(text) {
        if (server && field) server.texts[field] = `${server.texts[field] ?? ''}${text}`.slice(0, MAX_TEXT);
      },
      onclosetag() {
        field = undefined;
        if (depth-- !== server?.depth) return;
        const { side, texts } = server;
        const found = side && !config[side] && readServer(texts, address);
        if (found) config[side] = found;
        server = undefined;
      },
    },
    { xmlMode: true, lowerCaseAttributeNames: true },
  );
  try {
    parser.end(xml);
    return config;
  } catch (error) {
    if (error instanceof TooDeep) return {};
    throw error;
  }
}

class TooDeep extends Error {}

function readServer(texts: Partial<Record<Field, string>>, address: string): ServerAddress | undefined {
  const text = (name: Field) => texts[name]?.trim() ?? '';
  const host = fill(text('hostname'), address).toLowerCase();
  const port = Number(text('port'));
  const socket = text('socketType').toUpperCase();
  const user = fill(text('username'), address);
  // A document cannot ask for a connection without TLS.
  if (socket !== 'SSL' && socket !== 'STARTTLS') return undefined;
  if (!/^[a-z0-9.-]{1,253}$/.test(host) || !Number.isInteger(port) || port < 1 || port > 65535) return undefined;
  return { host, port, encryption: socket, ...(user && user !== address ? { user } : {}) };
}

/** Fills in the placeholders of the format, such as `%EMAILDOMAIN%`. */
function fill(template: string, address: string): string {
  const at = address.lastIndexOf('@');
  const parts: Record<string, string> = {
    EMAILADDRESS: address,
    EMAILLOCALPART: address.slice(0, at),
    EMAILDOMAIN: address.slice(at + 1),
  };
  return template.replace(/%([A-Z]+)%/g, (whole, name: string) => parts[name] ?? whole);
}
