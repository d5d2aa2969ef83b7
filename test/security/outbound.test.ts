import { describe, expect, it, jest } from '@jest/globals';
import {
  createOutbound,
  isLoopback,
  type Lookup,
  OutboundRefused,
  OutboundUnresolved,
} from '../../src/security/outbound.ts';
import { FORBIDDEN_HOSTS } from '../helpers/fakes/forbidden-hosts.ts';

const answers =
  (...addresses: string[]): Lookup =>
  async () =>
    addresses.map((address) => ({ address }));

const noDns: Lookup = async () => {
  throw new Error('a literal must not be looked up');
};

describe('literals', () => {
  it('of every known spelling are in the table', () => {
    expect(new Set(FORBIDDEN_HOSTS).size).toBeGreaterThanOrEqual(83);
  });

  it.each(FORBIDDEN_HOSTS.map((host) => [host]))('%s is refused', async (host) => {
    await expect(createOutbound({ allow: [], lookup: noDns }).resolve(host)).rejects.toBeInstanceOf(OutboundRefused);
  });

  it.each([
    ['8.8.8.8', '8.8.8.8', 4],
    ['134744072', '8.8.8.8', 4],
    ['::ffff:8.8.8.8', '8.8.8.8', 4],
    ['[2606:4700:4700::1111]', '2606:4700:4700::1111', 6],
    ['64:ff9b::8.8.8.8', '64:ff9b::808:808', 6],
    ['172.15.255.255', '172.15.255.255', 4],
    ['172.32.0.0', '172.32.0.0', 4],
    ['100.128.0.1', '100.128.0.1', 4],
  ])('%s is reached at %s', async (host, address, family) => {
    expect(await createOutbound({ allow: [], lookup: noDns }).resolve(host)).toEqual([{ address, family }]);
  });

  it.each([
    '',
    ' ',
    'a b',
    '1.2.3.4.5',
    '300.1.1.1',
    'a..b',
    '-',
    'a/b',
    'user@host',
    'host:80',
    'a\r\nb',
    'a\0b',
    ':',
    '[::1',
    'x'.repeat(300),
  ])('%j is no host', async (host) => {
    const failure = createOutbound({ allow: [], lookup: noDns }).resolve(host);
    await expect(failure).rejects.toMatchObject({ name: 'OutboundUnresolved', reason: 'invalid' });
  });
});

describe('allowed ranges', () => {
  const outbound = createOutbound({ allow: ['127.0.0.0/8', '::1/128', '10.1.0.0/16'], lookup: noDns });

  it.each(['127.0.0.1', '0x7f.1', '::1', '::ffff:127.0.0.1', '10.1.255.1'])('%s may be reached', async (host) => {
    expect(await outbound.resolve(host)).toHaveLength(1);
  });

  it.each(['10.2.0.1', '::127.0.0.1', '64:ff9b::127.0.0.1', '::1%lo', '2002:7f00:1::1', '0.0.0.0'])(
    '%s still may not',
    async (host) => {
      await expect(outbound.resolve(host)).rejects.toBeInstanceOf(OutboundRefused);
    },
  );

  it('refuses a range that cannot be read', () => {
    expect(() => createOutbound({ allow: ['10.0.0.0/40'] })).toThrow();
  });
});

describe('names', () => {
  it('returns every address once', async () => {
    const lookup = answers('2606:4700::1111', '8.8.8.8', '::ffff:8.8.8.8');
    expect(await createOutbound({ allow: [], lookup }).resolve('mail.example.com')).toEqual([
      { address: '2606:4700::1111', family: 6 },
      { address: '8.8.8.8', family: 4 },
    ]);
  });

  it.each([['127.0.0.1'], ['fe80::1%eth0'], ['::ffff:192.168.0.1'], ['no address']])(
    'is refused when one of several answers is %s',
    async (bad) => {
      const outbound = createOutbound({ allow: [], lookup: answers('8.8.8.8', bad) });
      await expect(outbound.resolve('mail.example.com')).rejects.toBeInstanceOf(OutboundRefused);
    },
  );

  it('looks up the name as it is in the DNS', async () => {
    const lookup = jest.fn(answers('8.8.8.8'));
    await createOutbound({ allow: [], lookup }).resolve('Mail.MÜNCHEN.de.');
    expect(lookup).toHaveBeenCalledWith('mail.xn--mnchen-3ya.de');
  });

  it.each([
    ['ENOTFOUND', 'not_found'],
    ['EAI_AGAIN', 'failed'],
  ])('tells %s as %s', async (code, reason) => {
    const lookup: Lookup = async () => {
      throw Object.assign(new Error('getaddrinfo'), { code });
    };
    const failure = createOutbound({ allow: [], lookup }).resolve('mail.example.com');
    await expect(failure).rejects.toMatchObject({ name: 'OutboundUnresolved', reason });
  });

  it('looks up a name once at a time, for all who ask: a lookup that its callers gave up still takes a thread', async () => {
    const ends: (() => void)[] = [];
    const lookup = jest.fn<Lookup>(() => new Promise((resolve) => ends.push(() => resolve([{ address: '8.8.8.8' }]))));
    const outbound = createOutbound({ allow: [], lookup, timeoutMs: 20 });
    for (const caller of [outbound.resolve('mail.example.com'), outbound.resolve('mail.example.com')]) {
      await expect(caller).rejects.toMatchObject({ reason: 'timeout' });
    }
    await expect(outbound.resolve('mail.example.com')).rejects.toMatchObject({ reason: 'timeout' });
    expect(lookup).toHaveBeenCalledTimes(1);
    ends[0]?.();
    await Promise.resolve();
    const later = outbound.resolve('mail.example.com');
    ends[1]?.();
    expect(await later).toEqual([{ address: '8.8.8.8', family: 4 }]);
    expect(lookup).toHaveBeenCalledTimes(2);
  });

  it('gives up on a resolver that does not respond', async () => {
    const outbound = createOutbound({ allow: [], lookup: () => new Promise(() => {}), timeoutMs: 20 });
    await expect(outbound.resolve('mail.example.com')).rejects.toEqual(
      new OutboundUnresolved('mail.example.com', 'timeout'),
    );
  });

  it('resolves localhost as the system does, to loopback', async () => {
    const outbound = createOutbound({ allow: ['127.0.0.0/8', '::1/128'] });
    const addresses = await outbound.resolve('localhost');
    expect(addresses.every(({ address }) => isLoopback(address))).toBe(true);
    await expect(createOutbound({ allow: [] }).resolve('localhost')).rejects.toBeInstanceOf(OutboundRefused);
  });
});
