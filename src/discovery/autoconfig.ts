import { request } from 'node:https';
import { isIP } from 'node:net';
import type { Outbound } from '../outbound.ts';
import type { ServerAddress } from './providers.ts';

/** What an autoconfig document says of the two sides that are used here. */
export interface Autoconfig {
  imap?: ServerAddress;
  smtp?: ServerAddress;
}

const MAX_DOCUMENT_BYTES = 256 * 1024;

/**
 * Fetches a document over HTTPS from a vetted address: 200 only, no redirects, at most 256 KiB, `timeoutMs` for all of
 * it. Undefined when there is none to be had. `ca` is for tests.
 */
export async function fetchDocument(
  url: string,
  options: { outbound: Outbound; timeoutMs: number; ca?: string | Buffer },
): Promise<string | undefined> {
  const { hostname, port, pathname, search, host } = new URL(url);
  const signal = AbortSignal.timeout(options.timeoutMs);
  try {
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
        (answer) => {
          if (answer.statusCode !== 200) {
            call.destroy();
            resolve(undefined);
            return;
          }
          const chunks: Buffer[] = [];
          let size = 0;
          answer.on('data', (chunk: Buffer) => {
            size += chunk.length;
            if (size > MAX_DOCUMENT_BYTES) call.destroy(new Error('too large'));
            else chunks.push(chunk);
          });
          answer.on('end', () => resolve(Buffer.concat(chunks).toString('utf8')));
          answer.on('error', reject);
        },
      );
      call.on('error', reject).end();
    });
  } catch {
    // No such host, no such document, no certificate, too slow: all the same, the next source is asked.
    return undefined;
  }
}

/**
 * Reads Thunderbird's autoconfig format, version 1.1: the first IMAP and the first SMTP server with TLS. A reader of
 * just that: no entities of the document's own, no nesting to follow, linear in its length.
 */
export function parseAutoconfig(xml: string, address: string): Autoconfig {
  const text = withoutComments(xml);
  const imap = firstServer(text, 'incomingServer', 'imap', address);
  const smtp = firstServer(text, 'outgoingServer', 'smtp', address);
  return { ...(imap ? { imap } : {}), ...(smtp ? { smtp } : {}) };
}

function withoutComments(xml: string): string {
  const [before = '', ...rest] = xml.split('<!--');
  return before + rest.map((part) => (part.includes('-->') ? part.slice(part.indexOf('-->') + 3) : '')).join('');
}

function firstServer(xml: string, element: string, type: string, address: string): ServerAddress | undefined {
  for (const part of xml.split(`<${element}`).slice(1)) {
    const block = part.slice(0, part.indexOf(`</${element}`));
    const tag = block.slice(0, block.indexOf('>'));
    if (!new RegExp(`\\stype\\s*=\\s*["']${type}["']`, 'i').test(tag)) continue;
    const server = readServer(block, address);
    if (server) return server;
  }
  return undefined;
}

function readServer(block: string, address: string): ServerAddress | undefined {
  const host = fill(textOf(block, 'hostname'), address).toLowerCase();
  const port = Number(textOf(block, 'port'));
  const socket = textOf(block, 'socketType').toUpperCase();
  const user = fill(textOf(block, 'username'), address);
  // A document cannot ask for a connection without TLS.
  if (socket !== 'SSL' && socket !== 'STARTTLS') return undefined;
  if (!/^[a-z0-9.-]{1,253}$/.test(host) || !Number.isInteger(port) || port < 1 || port > 65535) return undefined;
  return { host, port, encryption: socket, ...(user && user !== address ? { user } : {}) };
}

function textOf(block: string, element: string): string {
  const start = block.indexOf(`<${element}>`);
  if (start < 0) return '';
  const from = start + element.length + 2;
  return block.slice(from, block.indexOf('<', from)).trim();
}

function fill(template: string, address: string): string {
  const at = address.lastIndexOf('@');
  const parts: Record<string, string> = {
    EMAILADDRESS: address,
    EMAILLOCALPART: address.slice(0, at),
    EMAILDOMAIN: address.slice(at + 1),
  };
  return template.replace(/%([A-Z]+)%/g, (whole, name: string) => parts[name] ?? whole);
}
