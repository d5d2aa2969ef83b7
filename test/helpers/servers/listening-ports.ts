import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

/** Where a process listens. */
export interface Listener {
  ip: string;
  port: number;
}

const LISTEN = '0A';

/** The TCP sockets (IPv4) on which these processes listen; Linux only: proc(5). */
export function listenersOf(pids: readonly number[]): Listener[] {
  const inodes = new Set(pids.flatMap(socketsOf));
  return readFileSync('/proc/net/tcp', 'utf8')
    .split('\n')
    .slice(1)
    .map((line) => line.trim().split(/\s+/))
    .filter(([, , , state, , , , , , inode = '']) => state === LISTEN && inodes.has(inode))
    .map(([, local = '']) => addressOf(local));
}

function socketsOf(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
      const [, inode] = /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/${pid}/fd/${fd}`)) ?? [];
      return inode === undefined ? [] : [inode];
    });
  } catch {
    // it has ended, or one of its files was closed
    return [];
  }
}

/** `0100007F:1F90`: bytes in the order of the machine, which is little-endian. */
function addressOf(local: string): Listener {
  const [ip = '', port = ''] = local.split(':');
  return { ip: [...Buffer.from(ip, 'hex')].reverse().join('.'), port: Number.parseInt(port, 16) };
}
