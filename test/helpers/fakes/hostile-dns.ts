import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { isIPv4 } from 'node:net';

/** The records of a name: addresses, another name, or the location of a service. */
export interface Records {
  /** IPv4 and IPv6 addresses; a function is called for each query and may return other ones */
  addresses?: readonly string[] | (() => readonly string[]);
  alias?: string;
  srv?: { target: string; port: number };
}

const TYPES = { A: 1, CNAME: 5, AAAA: 28, SRV: 33 } as const;
const TTL_S = 0;

/** A hostile name server; unknown names do not exist. */
export async function startHostileDns(port: number, zone: Readonly<Record<string, Records>>): Promise<Socket> {
  const socket = createSocket('udp4');
  socket.on('message', (query, { address, port: from }) => socket.send(answer(query, zone), from, address));
  socket.bind(port, '127.0.0.1');
  await once(socket, 'listening');
  return socket;
}

/** RFC 1035: the header, the question as it came, the answers. */
function answer(query: Buffer, zone: Readonly<Record<string, Records>>): Buffer {
  const { name, type, end } = readQuestion(query);
  const records = zone[name];
  const answers = records ? answersOf(name, type, zone) : [];
  const header = Buffer.from(query.subarray(0, 12));
  // a response, recursion available; NXDOMAIN for an unknown name
  header.writeUInt16BE(0x8580 | (records ? 0 : 3), 2);
  header.writeUInt16BE(1, 4);
  header.writeUInt16BE(answers.length, 6);
  header.writeUInt32BE(0, 8);
  return Buffer.concat([header, query.subarray(12, end), ...answers]);
}

function readQuestion(query: Buffer): { name: string; type: number; end: number } {
  const labels: string[] = [];
  let at = 12;
  for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length));
    at += 1 + length;
  }
  return { name: labels.join('.').toLowerCase(), type: query.readUInt16BE(at + 1), end: at + 5 };
}

function answersOf(name: string, type: number, zone: Readonly<Record<string, Records>>): Buffer[] {
  const { addresses = [], alias, srv } = zone[name] ?? {};
  if (alias !== undefined) return [record(name, TYPES.CNAME, nameBytes(alias)), ...answersOf(alias, type, zone)];
  if (type === TYPES.SRV && srv) {
    const numbers = Buffer.alloc(6);
    numbers.writeUInt16BE(srv.port, 4);
    return [record(name, TYPES.SRV, Buffer.concat([numbers, nameBytes(srv.target)]))];
  }
  if (type !== TYPES.A && type !== TYPES.AAAA) return [];
  const all = typeof addresses === 'function' ? addresses() : addresses;
  return all
    .filter((address) => isIPv4(address) === (type === TYPES.A))
    .map((address) => record(name, type, addressBytes(address)));
}

function record(name: string, type: number, data: Buffer): Buffer {
  const fixed = Buffer.alloc(10);
  fixed.writeUInt16BE(type, 0);
  fixed.writeUInt16BE(1, 2);
  fixed.writeUInt32BE(TTL_S, 4);
  fixed.writeUInt16BE(data.length, 8);
  return Buffer.concat([nameBytes(name), fixed, data]);
}

function nameBytes(name: string): Buffer {
  const labels = name.split('.').map((label) => Buffer.concat([Buffer.from([label.length]), Buffer.from(label)]));
  return Buffer.concat([...labels, Buffer.from([0])]);
}

function addressBytes(address: string): Buffer {
  if (isIPv4(address)) return Buffer.from(address.split('.').map(Number));
  const [head = '', tail = ''] = address.split('::');
  const groups = (text: string) => text.split(':').filter(Boolean);
  const missing = 8 - groups(head).length - groups(tail).length;
  const all = [...groups(head), ...Array<string>(missing).fill('0'), ...groups(tail)];
  return Buffer.from(all.flatMap((group) => [Number.parseInt(group, 16) >> 8, Number.parseInt(group, 16) & 255]));
}
