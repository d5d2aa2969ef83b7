import { Resolver } from 'node:dns/promises';
import { domainToASCII } from 'node:url';
import type { Encryption } from '../contract/account.ts';
import type { Outbound } from '../security/outbound.ts';
import { type Autoconfig, fetchDocument, parseAutoconfig } from './autoconfig.ts';
import {
  type Closed,
  closedDomain,
  closedExchanger,
  providerOfDomain,
  providerOfExchanger,
  type ServerAddress,
} from './providers.ts';

/** The servers that were found; `closed`: why the provider has none. */
export interface Discovered extends Autoconfig {
  closed?: Closed;
}

/** The sources of discovery; each lookup ends in bounded time and never throws. */
export interface DiscoverSources {
  srv(name: string): Promise<{ name: string; port: number; priority: number; weight: number }[]>;
  mx(domain: string): Promise<string[]>;
  document(url: string): Promise<string | undefined>;
}

const LOOKUP_TIMEOUT_MS = 3_000;

/** The real sources: the system's DNS servers, and HTTPS to addresses that the guard allows; 3 s for each lookup. */
export function createDiscoverSources(outbound: Outbound): DiscoverSources {
  return {
    srv: (name) => resolve((resolver) => resolver.resolveSrv(name)),
    mx: async (domain) => {
      const records = await resolve((resolver) => resolver.resolveMx(domain));
      return records.sort((a, b) => a.priority - b.priority).map(({ exchange }) => exchange);
    },
    document: (url) => fetchDocument(url, { outbound, timeoutMs: LOOKUP_TIMEOUT_MS }),
  };
}

async function resolve<T>(lookup: (resolver: Resolver) => Promise<T[]>): Promise<T[]> {
  const resolver = new Resolver({ timeout: LOOKUP_TIMEOUT_MS / 2, tries: 1 });
  const timer = setTimeout(() => resolver.cancel(), LOOKUP_TIMEOUT_MS);
  try {
    return await lookup(resolver);
  } catch {
    return [];
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Finds the servers of an address: the table of known providers, then DNS SRV (RFC 6186,
 * RFC 8314), then the provider's autoconfig document, then the provider whose mail exchanger the domain uses. A later
 * source adds only what the earlier ones did not have. Takes 9 s at most.
 */
export async function discoverServers(address: string, sources: DiscoverSources): Promise<Discovered> {
  const given = address.slice(address.lastIndexOf('@') + 1);
  // domainToASCII takes a URL's host, and leaves out what follows it
  const domain = /[\s/?#:%\\[\]]/.test(given) ? '' : domainToASCII(given).replace(/\.$/, '');
  if (!address.includes('@') || !isDomain(domain)) return {};
  const provider = providerOfDomain(domain);
  if (provider) return { imap: provider.imap, smtp: provider.smtp };
  const closed = closedDomain(domain);
  if (closed) return { closed };
  let found: Discovered = {};
  for (const source of [fromSrv, fromDocuments, fromExchanger]) {
    found = { ...(await source(domain, address, sources)), ...found };
    if (found.imap && found.smtp) break;
  }
  return found;
}

/** Whether a name has a dot and is unchanged in other names and in URLs, unlike an IP address. */
function isDomain(domain: string): boolean {
  const labels = domain.split('.');
  if (labels.length < 2 || domain.length > MAX_DOMAIN || !labels.every((label) => LABEL.test(label))) return false;
  const name = `autoconfig.${domain}`;
  return URL.canParse(`https://${name}/`) && new URL(`https://${name}/`).hostname === name;
}

const LABEL = /^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$/;
/** RFC 1035, 2.3.4, less the longest prefix */
const MAX_DOMAIN = 253 - '_submissions._tcp.'.length;

async function fromSrv(domain: string, _address: string, { srv }: DiscoverSources): Promise<Autoconfig> {
  const service = async (name: string, encryption: Encryption): Promise<ServerAddress | undefined> => {
    const records = await srv(`${name}._tcp.${domain}`);
    const [best] = records
      // A target of "." says that the service is not offered (RFC 6186, 3.4).
      .filter((record) => record.name.replace(/\.$/, '') !== '')
      .sort((a, b) => a.priority - b.priority || b.weight - a.weight);
    return best && { host: best.name.replace(/\.$/, '').toLowerCase(), port: best.port, encryption };
  };
  const [imaps, imap, submissions, submission] = await Promise.all([
    service('_imaps', 'SSL'),
    service('_imap', 'STARTTLS'),
    service('_submissions', 'SSL'),
    service('_submission', 'STARTTLS'),
  ]);
  return sidesOf(imaps ?? imap, submissions ?? submission);
}

async function fromDocuments(domain: string, address: string, { document }: DiscoverSources): Promise<Autoconfig> {
  const query = `?emailaddress=${encodeURIComponent(address)}`;
  const documents = await Promise.all([
    document(`https://autoconfig.${domain}/mail/config-v1.1.xml${query}`),
    document(`https://${domain}/.well-known/autoconfig/mail/config-v1.1.xml${query}`),
    // Other organisations get the domain only, never the address.
    document(`https://autoconfig.thunderbird.net/v1.1/${domain}`),
  ]);
  return documents.reduce<Autoconfig>(
    (found, xml) => ({ ...(xml ? parseAutoconfig(xml, address) : {}), ...found }),
    {},
  );
}

async function fromExchanger(domain: string, _address: string, { mx }: DiscoverSources): Promise<Discovered> {
  const exchangers = await mx(domain);
  const closed = exchangers.map(closedExchanger).find((one) => one !== undefined);
  if (closed) return { closed };
  const provider = exchangers.map(providerOfExchanger).find((one) => one !== undefined);
  return sidesOf(provider?.imap, provider?.smtp);
}

function sidesOf(imap: ServerAddress | undefined, smtp: ServerAddress | undefined): Autoconfig {
  return { ...(imap ? { imap } : {}), ...(smtp ? { smtp } : {}) };
}
