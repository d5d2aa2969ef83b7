import { lookup as systemLookup } from 'node:dns/promises';
import { domainToASCII } from 'node:url';
import ipaddr from 'ipaddr.js';
import { withDeadline } from '../async.ts';

/** An address that may be connected to. */
export interface VettedAddress {
  address: string;
  family: 4 | 6;
}

/** The one guard for hosts that API callers name: webhook URLs, IMAP and SMTP servers, autoconfig documents. */
export interface Outbound {
  /**
   * The addresses of a host (a name, or a literal in any spelling), every one of them allowed. Connect to one of these
   * with the name for TLS; resolve again for each new connection.
   * @throws OutboundRefused when any address is not public and not inside an allowed range, OutboundUnresolved when it
   * has none
   */
  resolve(host: string): Promise<VettedAddress[]>;
}

/** The host resolves to an address that must not be reached. The message does not name it. */
export class OutboundRefused extends Error {
  readonly host: string;
  constructor(host: string) {
    super('the host resolves to a non-public address that OUTBOUND_ALLOW does not include');
    this.name = 'OutboundRefused';
    this.host = host;
  }
}

/** The host has no address (`failed`, `timeout`: it may have one later). The message does not name it. */
export class OutboundUnresolved extends Error {
  readonly host: string;
  readonly reason: 'invalid' | 'not_found' | 'timeout' | 'failed';
  constructor(host: string, reason: OutboundUnresolved['reason'], options?: ErrorOptions) {
    super(UNRESOLVED[reason], options);
    this.name = 'OutboundUnresolved';
    this.host = host;
    this.reason = reason;
  }
}

const UNRESOLVED = {
  invalid: 'the host name is not valid',
  not_found: 'the host name does not exist',
  timeout: 'the host name was not resolved in time',
  failed: 'the host name could not be resolved',
} as const;

/** All addresses of a name, as the operating system resolves it. */
export type Lookup = (host: string) => Promise<{ address: string }[]>;

const DNS_TIMEOUT_MS = 5_000;

/**
 * Special-purpose blocks (IANA registries, RFC 6890): never a server on the public internet. For IPv6 the rule
 * is the reverse: only 2000::/3 is public, except for these blocks of it.
 */
const SPECIAL_IPV4 = [
  '0.0.0.0/8', // this network
  '10.0.0.0/8',
  '100.64.0.0/10', // carrier-grade NAT
  '127.0.0.0/8',
  '169.254.0.0/16', // link-local, cloud metadata
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24', // documentation
  '192.88.99.0/24', // 6to4 relays
  '192.168.0.0/16',
  '198.18.0.0/15', // benchmarking
  '198.51.100.0/24', // documentation
  '203.0.113.0/24', // documentation
  '224.0.0.0/4', // multicast
  '240.0.0.0/4', // reserved, broadcast
].map((cidr) => ipaddr.IPv4.parseCIDR(cidr));
const SPECIAL_IPV6 = [
  '2001::/23', // Teredo, benchmarking, ORCHID
  '2001:db8::/32', // documentation
  '2002::/16', // 6to4: leads to whatever IPv4 address it holds
  '3fff::/20', // documentation
].map((cidr) => ipaddr.IPv6.parseCIDR(cidr));
const PUBLIC_IPV6 = ipaddr.IPv6.parseCIDR('2000::/3');
/** NAT64's well-known prefix (RFC 6052): the last four bytes are the IPv4 address that is reached. */
const NAT64 = ipaddr.IPv6.parseCIDR('64:ff9b::/96');

type Address = ipaddr.IPv4 | ipaddr.IPv6;
type Cidr = [Address, number];

/**
 * The guard with the ranges that may be reached though not public (CIDRs; throws when one cannot be read).
 * `lookup` and `timeoutMs` (of one name, default 5 s) are for tests.
 */
export function createOutbound(options: { allow: string[]; lookup?: Lookup; timeoutMs?: number }): Outbound {
  const allowed: Cidr[] = options.allow.map((cidr) => ipaddr.parseCIDR(cidr));
  const lookup = oneAtATime(options.lookup ?? ((host) => systemLookup(host, { all: true, verbatim: true })));
  const timeoutMs = options.timeoutMs ?? DNS_TIMEOUT_MS;

  return {
    async resolve(host) {
      const name = canonicalHost(host);
      if (name === undefined) throw new OutboundUnresolved(host, 'invalid');
      if (name.includes('%')) throw new OutboundRefused(host);
      const results = ipaddr.isValid(name) ? [name] : await lookUp(host, name, lookup, timeoutMs);
      const vetted = new Map<string, VettedAddress>();
      for (const result of results) {
        const address = parseAddress(canonicalHost(result) ?? '');
        if (!address || !(isPublic(address) || isWithin(address, allowed))) throw new OutboundRefused(host);
        const text = address.toString();
        vetted.set(text, { address: text, family: address.kind() === 'ipv4' ? 4 : 6 });
      }
      if (vetted.size === 0) throw new OutboundUnresolved(host, 'not_found');
      return [...vetted.values()];
    },
  };
}

/** Whether an address is loopback, in IPv4, IPv6 or mapped. */
export function isLoopback(address: string): boolean {
  return parseAddress(address)?.range() === 'loopback';
}

/**
 * A host as the URL standard writes it: lower case, punycode, IPv4 in any spelling (decimal, octal, hex, short,
 * full-width) as four decimals, IPv6 in hex without brackets. Undefined when the text is no host.
 */
function canonicalHost(host: string): string | undefined {
  if (FORBIDDEN.test(host)) return undefined;
  const bare = host.startsWith('[') && host.endsWith(']') ? host.slice(1, -1) : host;
  if (bare.includes(':')) {
    const [literal = '', zone] = bare.split('%', 2);
    const address = domainToASCII(`[${literal}]`).slice(1, -1);
    return address && zone !== undefined ? `${address}%${zone}` : address || undefined;
  }
  const name = domainToASCII(bare).replace(/\.$/, '');
  return name.length <= 253 && HOST_NAME.test(name) ? name : undefined;
}

/** Characters that would end the host or begin another part in a URL. */
const FORBIDDEN = /[\s/\\?#@]/;
const HOST_NAME = /^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*$/;

/**
 * One lookup of each name at a time, which its callers share: each takes a thread of the process until the system gives up, which
 * is later than our callers do.
 */
function oneAtATime(lookup: Lookup): Lookup {
  const running = new Map<string, ReturnType<Lookup>>();
  return (name) => {
    const known = running.get(name);
    if (known) return known;
    const own = lookup(name).finally(() => running.delete(name));
    running.set(name, own);
    return own;
  };
}

/** The addresses of a name as texts. @throws OutboundUnresolved */
async function lookUp(host: string, name: string, lookup: Lookup, timeoutMs: number): Promise<string[]> {
  try {
    // A lookup of the system cannot be cancelled; a late result is ignored.
    const results = await withDeadline(timeoutMs, lookup(name), () => new OutboundUnresolved(host, 'timeout'));
    return results.map(({ address }) => address);
  } catch (error) {
    if (error instanceof OutboundUnresolved) throw error;
    const code = (error as NodeJS.ErrnoException).code;
    const reason = code === 'ENOTFOUND' || code === 'ENODATA' ? 'not_found' : 'failed';
    throw new OutboundUnresolved(host, reason, { cause: error });
  }
}

/** The address that a connection would reach: IPv4-mapped IPv6 becomes the IPv4 address. Undefined: not an address. */
function parseAddress(text: string): Address | undefined {
  return ipaddr.isValid(text) ? ipaddr.process(text) : undefined;
}

function isPublic(address: Address): boolean {
  if (address instanceof ipaddr.IPv4) return !SPECIAL_IPV4.some((cidr) => address.match(cidr));
  if (address.zoneId) return false;
  if (address.match(NAT64)) return isPublic(new ipaddr.IPv4(address.toByteArray().slice(12)));
  return address.match(PUBLIC_IPV6) && !SPECIAL_IPV6.some((cidr) => address.match(cidr));
}

function isWithin(address: Address, cidrs: Cidr[]): boolean {
  return cidrs.some(([network, bits]) => address.kind() === network.kind() && address.match(network, bits));
}
