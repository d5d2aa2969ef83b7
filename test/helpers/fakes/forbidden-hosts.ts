/** Hosts with non-public addresses, in every spelling that a URL parser or a resolver accepts. */
export const FORBIDDEN_HOSTS: readonly string[] = [
  // loopback in IPv4: dotted, short, decimal, hex, octal, mixed, full-width, circled, ideographic stops, a dot at the end
  ...[
    '127.0.0.1',
    '127.0.0.1.',
    '127.255.255.254',
    '127.1',
    '127.0.1',
    '2130706433',
    '0x7f000001',
    '0x7F.1',
    '0x7f.0.0.1',
  ],
  ...[
    '0x7f.0x0.0x0.0x1',
    '0177.0.0.1',
    '0177.1',
    '017700000001',
    '00000177.0.0.1',
    '0x7f.0.1',
    '127.0x1',
    '127.00.00.01',
  ],
  ...['１２７.0.0.1', '127。0。0。1', '127．0．0．1', '①②⑦.⓪.⓪.①', '𝟏𝟐𝟕.𝟎.𝟎.𝟏'],
  // this network, private, shared, link-local with the metadata of clouds, reserved, documentation, multicast
  ...['0', '0.0.0.0', '0x0', '00', '0.1.2.3', '10.1.2.3', '10.255.255.255', '167772161', '0xa.1', '012.1.1.1'],
  ...['100.64.0.1', '100.127.255.255', '169.254.169.254', '0xa9fea9fe', '2852039166', '0251.0376.0251.0376'],
  ...[
    '172.16.0.1',
    '172.31.255.255',
    '192.0.0.8',
    '192.0.2.1',
    '192.88.99.1',
    '192.168.1.1',
    '3232235777',
    '0300.0250.1.1',
  ],
  ...['198.18.0.1', '198.19.255.255', '198.51.100.7', '203.0.113.9', '224.0.0.1', '239.255.255.250', '240.0.0.1'],
  ...['255.255.255.255', '4294967295'],
  // IPv6: unspecified, loopback, compatible, mapped, translated, NAT64, discard, Teredo, 6to4, documentation, local, multicast
  ...['::', '::1', '[::1]', '0:0:0:0:0:0:0:1', '0000:0000:0000:0000:0000:0000:0000:0001', '::127.0.0.1', '::7f00:1'],
  ...[
    '::8.8.8.8',
    '::ffff:127.0.0.1',
    '[::ffff:7f00:1]',
    '::FFFF:127.0.0.1',
    '0:0:0:0:0:ffff:127.0.0.1',
    '::ffff:10.0.0.1',
  ],
  ...['::ffff:169.254.169.254', '::ffff:0:127.0.0.1', '64:ff9b::127.0.0.1', '64:ff9b::a9fe:a9fe', '64:ff9b::10.0.0.1'],
  ...['64:ff9b:1::808:808', '100::1', '2001::1', '2001:2::1', '2001:20::1', '2001:db8::1', '2002:7f00:1::1'],
  ...['2002:808:808::1', '3fff::1', 'fc00::1', 'fd12:3456::1', 'fe80::1', 'fe80::1%eth0', '[fe80::1%25eth0]', '::1%lo'],
  ...['2606:4700::1111%eth0', 'fec0::1', 'ff02::1', 'ff0e::1', '5f00::1'],
];

/** URLs that an endpoint may not have: they name such a host, or are not web addresses. */
export const FORBIDDEN_URLS: readonly string[] = [
  // spellings of this host for a URL parser
  ...['http://127.0.0.1/', 'http://127.0.0.1:8080/hook', 'HTTP://127.0.0.1/', 'https://127.0.0.1/', 'http:127.0.0.1'],
  ...['http:/127.0.0.1', 'http:///127.0.0.1', 'http:\\\\127.0.0.1\\', 'http://127.0.0.1\\@example.com/'],
  ...['  http://127.0.0.1/', 'http://\t127.0.0.1/', 'ht\ntp://127.0.0.1/', 'http://127.0.0.1./', 'http://127.0.0.1?'],
  ...[
    'http://user@127.0.0.1/',
    'http://user:pw@127.0.0.1/',
    'http://example.com@127.0.0.1/',
    'http://example.com:80@127.0.0.1/',
  ],
  ...['http://127.0.0.1#@example.com/', 'http://127.0.0.1?@example.com/', 'http://127.0.0.1/@example.com'],
  ...['http://127%2e0%2e0%2e1/', 'http://%31%32%37.0.0.1/', 'http://%6c%6f%63%61%6c%68%6f%73%74/', 'http://localhost/'],
  ...[
    'http://LOCALHOST./',
    'http://[::1]/',
    'http://[::1]:25/',
    'http://[::ffff:127.0.0.1]/',
    'http://[::]/',
    'http://0/',
  ],
  ...['http://2130706433/', 'http://0x7f000001/', 'http://0177.0.0.1/', 'http://127.1/', 'http://１２７.0.0.1/'],
  ...[
    'http://①②⑦.⓪.⓪.①/',
    'http://169.254.169.254/latest/meta-data/',
    'https://[64:ff9b::127.0.0.1]/',
    'http://10.0.0.1/',
  ],
  // no host
  ...[
    'http://',
    'http://:80/',
    'http://[::1',
    'http://[fe80::1%25eth0]/',
    'http://localhost%00.example.com/',
    'http://a b/',
  ],
  ...['http://127.0.0.1%0d%0aHost:x/', 'http://example.com:99999/', '//127.0.0.1/', '/etc/passwd', '127.0.0.1', ''],
  // not a web address
  ...[
    'ftp://example.com/',
    'file:///etc/passwd',
    'gopher://127.0.0.1:25/_',
    'data:text/plain,x',
    'javascript:alert(1)',
  ],
  ...[
    'blob:http://example.com/x',
    'ws://127.0.0.1/',
    'unix:/var/run/docker.sock',
    'http+unix://%2Fvar%2Frun%2Fdocker.sock/',
  ],
];
