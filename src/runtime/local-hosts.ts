import { isIP } from 'node:net';

/*
 * A web page can reach a server on this machine under another name (DNS rebinding), and read what needs no key. It
 * cannot choose the Host that its browser sends: that is the name.
 */

/** Whether a server that listens at `host` can be reached from this machine only. */
export function isLocal(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127\.\d+\.\d+\.\d+$/.test(host);
}

/** Whether a `Host` is an IP address, a name of loopback, or one of `known`: a name that no page of another site has. */
export function isOwnHost(host: string | undefined, known: readonly string[] = []): boolean {
  const url = `http://${host ?? ''}/`;
  if (!URL.canParse(url)) return false;
  const name = new URL(url).hostname.replace(/\.$/, '');
  return isIP(name.replace(/^\[|\]$/g, '')) !== 0 || /(^|\.)localhost$/.test(name) || known.includes(name);
}
