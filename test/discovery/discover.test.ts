import { describe, expect, it } from '@jest/globals';
import { createDiscoverSources, discoverServers, type DiscoverSources } from '../../src/discovery/discover.ts';
import { createOutbound } from '../../src/security/outbound.ts';
import { helpFor, hintOfHost, providerOfDomain, providerOfExchanger } from '../../src/discovery/providers.ts';

interface Given {
  srv?: Record<string, { name: string; port: number; priority?: number; weight?: number }[]>;
  mx?: string[];
  documents?: Record<string, string>;
}

/** Sources with given answers, which record the questions. */
function sources(given: Given = {}): DiscoverSources & { asked: string[] } {
  const asked: string[] = [];
  return {
    asked,
    srv: async (name) => {
      asked.push(name);
      return (given.srv?.[name] ?? []).map((record) => ({ priority: 0, weight: 0, ...record }));
    },
    mx: async (domain) => {
      asked.push(`mx ${domain}`);
      return given.mx ?? [];
    },
    document: async (url) => {
      asked.push(url);
      return given.documents?.[url];
    },
  };
}

const document = (host: string) => `<clientConfig version="1.1"><emailProvider id="x">
  <incomingServer type="imap"><hostname>${host}</hostname><port>993</port><socketType>SSL</socketType>
    <username>%EMAILADDRESS%</username></incomingServer>
  <outgoingServer type="smtp"><hostname>${host}</hostname><port>587</port><socketType>STARTTLS</socketType>
    <username>%EMAILADDRESS%</username></outgoingServer>
</emailProvider></clientConfig>`;

describe('known providers', () => {
  it.each([
    ['a@gmail.com', 'imap.gmail.com', 993, 'smtp.gmail.com', 465],
    ['a@GoogleMail.com', 'imap.gmail.com', 993, 'smtp.gmail.com', 465],
    ['a@icloud.com', 'imap.mail.me.com', 993, 'smtp.mail.me.com', 587],
    ['a@yahoo.co.uk', 'imap.mail.yahoo.com', 993, 'smtp.mail.yahoo.com', 465],
    ['a@fastmail.com', 'imap.fastmail.com', 993, 'smtp.fastmail.com', 465],
    ['a@gmx.de', 'imap.gmx.net', 993, 'mail.gmx.net', 465],
    ['a@web.de', 'imap.web.de', 993, 'smtp.web.de', 587],
    ['a@zoho.eu', 'imap.zoho.eu', 993, 'smtp.zoho.eu', 465],
    ['a@outlook.com', 'outlook.office365.com', 993, 'smtp-mail.outlook.com', 587],
    ['a@t-online.de', 'secureimap.t-online.de', 993, 'securesmtp.t-online.de', 465],
  ])('%s needs no question', async (address, imapHost, imapPort, smtpHost, smtpPort) => {
    const known = sources();
    const { imap, smtp } = await discoverServers(address, known);
    expect(imap).toMatchObject({ host: imapHost, port: imapPort, encryption: 'SSL' });
    expect(smtp).toMatchObject({ host: smtpHost, port: smtpPort });
    expect(known.asked).toEqual([]);
  });

  it('are never reached without TLS', () => {
    for (const domain of ['gmail.com', 'icloud.com', 'web.de', 'comcast.net']) {
      const { imap, smtp } = providerOfDomain(domain) ?? {};
      expect([imap?.encryption, smtp?.encryption]).not.toContain('NONE');
    }
  });

  it('are found by their mail exchangers', () => {
    expect(providerOfExchanger('ASPMX.L.GOOGLE.COM.')?.imap.host).toBe('imap.gmail.com');
    expect(providerOfExchanger('example-com.mail.protection.outlook.com')?.smtp.host).toBe('smtp.office365.com');
    expect(providerOfExchanger('notgoogle.com')).toBeUndefined();
  });

  it('have hints for refused logins', () => {
    expect(hintOfHost('IMAP.gmail.com')).toMatch(/app password/);
    expect(hintOfHost('imap.web.de')).toMatch(/switched on/);
    expect(hintOfHost('imap.example.com')).toBeUndefined();
  });
});

describe('providers where no password works', () => {
  it.each(['a@proton.me', 'a@PM.me', 'a@tuta.com', 'a@tutanota.de'])(
    '%s has no servers, without a question',
    async (a) => {
      const known = sources();
      expect(await discoverServers(a, known)).toEqual({
        closed: { code: expect.any(String), reason: expect.stringMatching(/^(Proton Mail|Tuta) encrypts/) },
      });
      expect(known.asked).toEqual([]);
    },
  );

  it.each(['mail.protonmail.ch.', 'w1.tutanota.de'])('are found by the mail exchanger %s', async (mx) => {
    expect(await discoverServers('a@example.com', sources({ mx: [mx] }))).toMatchObject({
      closed: { code: mx.includes('proton') ? 'proton' : 'tuta' },
    });
  });

  it.each([
    ['a@hotmail.com', [], 'none', 'microsoft'],
    ['a@example.com', ['example-com.mail.protection.outlook.com'], 'none', 'microsoft'],
    ['a@gmail.com', [], 'app_password', 'gmail'],
    ['a@gmx.de', [], 'password', 'gmx'],
    ['a@posteo.de', [], 'password', null],
  ])('%s with the mail exchangers %j: %s, %s', async (address, mx, password_login, provider) => {
    const { imap } = await discoverServers(address, sources({ mx }));
    expect(helpFor(imap?.host)).toMatchObject({ password_login, provider });
  });
});

describe('DNS SRV', () => {
  it('finds both sides, TLS from the first byte before STARTTLS', async () => {
    const dns = sources({
      srv: {
        '_imaps._tcp.example.com': [{ name: 'Imap.example.com.', port: 993 }],
        '_imap._tcp.example.com': [{ name: 'old.example.com', port: 143 }],
        '_submission._tcp.example.com': [{ name: 'smtp.example.com', port: 587 }],
      },
    });
    expect(await discoverServers('a@example.com', dns)).toEqual({
      imap: { host: 'imap.example.com', port: 993, encryption: 'SSL' },
      smtp: { host: 'smtp.example.com', port: 587, encryption: 'STARTTLS' },
    });
    expect(dns.asked.every((name) => name.endsWith('._tcp.example.com'))).toBe(true);
  });

  it('takes the lowest priority, then the greatest weight', async () => {
    const dns = sources({
      srv: {
        '_imaps._tcp.example.com': [
          { name: 'c.example.com', port: 1, priority: 20, weight: 9 },
          { name: 'b.example.com', port: 2, priority: 10, weight: 1 },
          { name: 'a.example.com', port: 3, priority: 10, weight: 5 },
        ],
        '_submissions._tcp.example.com': [{ name: 's.example.com', port: 465 }],
      },
    });
    const { imap, smtp } = await discoverServers('a@example.com', dns);
    expect(imap?.port).toBe(3);
    expect(smtp).toEqual({ host: 's.example.com', port: 465, encryption: 'SSL' });
  });

  it('treats a target of "." as a service that is not offered', async () => {
    const dns = sources({ srv: { '_imaps._tcp.example.com': [{ name: '.', port: 0 }] } });
    expect(await discoverServers('a@example.com', dns)).toEqual({});
  });
});

describe('autoconfig documents and mail exchangers', () => {
  it('add what DNS did not have', async () => {
    const mixed = sources({
      srv: { '_imaps._tcp.example.com': [{ name: 'imap.example.com', port: 993 }] },
      documents: { 'https://autoconfig.thunderbird.net/v1.1/example.com': document('ispdb.example.com') },
    });
    const { imap, smtp } = await discoverServers('a@example.com', mixed);
    expect([imap?.host, smtp?.host]).toEqual(['imap.example.com', 'ispdb.example.com']);
  });

  it('the document of the domain takes precedence', async () => {
    const own = sources({
      documents: {
        'https://autoconfig.example.com/mail/config-v1.1.xml?emailaddress=a%2Bb%40example.com':
          document('own.example.com'),
        'https://autoconfig.thunderbird.net/v1.1/example.com': document('ispdb.example.com'),
      },
    });
    expect((await discoverServers('a+b@example.com', own)).imap?.host).toBe('own.example.com');
  });

  it('send the address to the domain alone', async () => {
    const none = sources();
    await discoverServers('secret@example.com', none);
    const elsewhere = none.asked.filter((question) => !question.includes('example.com/'));
    expect(elsewhere.some((question) => question.includes('secret'))).toBe(false);
  });

  it('find the provider of a custom domain', async () => {
    const { imap, smtp } = await discoverServers('a@example.com', sources({ mx: ['in1-smtp.messagingengine.com'] }));
    expect([imap?.host, smtp?.host]).toEqual(['imap.fastmail.com', 'smtp.fastmail.com']);
  });
});

it.each(['no address', 'a@', 'a@localhost', '@', ''])('%j has no result and causes no lookup', async (address) => {
  const none = sources();
  expect(await discoverServers(address, none)).toEqual({});
  expect(none.asked).toEqual([]);
});

it('looks up a domain in any script by its name in the DNS', async () => {
  const none = sources();
  await discoverServers('a@BÜCHER.example', none);
  expect(none.asked[0]).toBe('_imaps._tcp.xn--bcher-kva.example');
});

it.each([
  ...['x@127.0.0.1', 'x@[127.0.0.1]', 'x@2130706433', 'x@0x7f.1', 'x@1.2.3', 'x@host.0x1', 'x@a..b', 'x@.b', 'x@a.'],
  ...[
    'x@evil.test/path',
    'x@evil.test:25',
    'x@evil.test?q',
    'x@evil.test#f',
    'x@evil.test\\x',
    'x@evil .test',
    'x@%.test',
  ],
  ...['x@::1', 'x@[::1]', 'x@xn--.test', '@', 'x@', 'x@\u2024.test', `x@${'a'.repeat(64)}.${'b'.repeat(250)}.test`],
])('of %s is empty, without a lookup', async (address) => {
  const strict = sources();
  const document = (url: string) => {
    expect(new URL(url).hostname).toMatch(/^autoconfig\.|^[a-z]/);
    return strict.document(url);
  };
  expect(await discoverServers(address, { ...strict, document })).toEqual({});
  expect(strict.asked.filter((asked) => !asked.includes(`${'a'.repeat(64)}.`))).toEqual([]);
});

it('of a document without an address is empty', async () => {
  const { document } = createDiscoverSources(createOutbound({ allow: [] }));
  expect(await document('https://autoconfig.127.0.0.1/mail')).toBeUndefined();
});
