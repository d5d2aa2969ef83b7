import { describe, expect, test } from '@jest/globals';
import { expectCpuBelow } from '../helpers/assert/cpu.ts';
import { normalAddress, withUnicodeDomain, withUnicodeDomains } from '../../src/mail-wire/addresses.ts';

describe('the two forms of a domain beyond ASCII', () => {
  test.each([
    ['ada@xn--bcher-kva.example', 'ada@bücher.example'],
    ['Ada@XN--BCHER-KVA.Example ', 'ada@bücher.example'],
    ['ada@BÜCHER.example', 'ada@bücher.example'],
    ['ada@bu\u0308cher.example', 'ada@bücher.example'],
    ['jörg@xn--fsqu00a.xn--0zwm56d', 'jörg@例子.测试'],
    ['ada@mail.example', 'ada@mail.example'],
    ['ada@xn--zz--x.example', 'ada@xn--zz--x.example'],
    ['"a@b"@xn--bcher-kva.example', '"a@b"@bücher.example'],
    ['ada@bücher.example/x', 'ada@bücher.example/x'],
    ['xn--bcher-kva.example', 'bücher.example'],
    ['', ''],
  ])('%j is compared as %j', (address, normal) => {
    expect(normalAddress(address)).toBe(normal);
    expect(normalAddress(normal)).toBe(normal);
  });

  test('the shown form keeps the case of the local part', () => {
    expect(withUnicodeDomain('Ada.B@xn--bcher-kva.example')).toBe('Ada.B@bücher.example');
    expect(withUnicodeDomain('Ada.B@Mail.Example')).toBe('Ada.B@Mail.Example');
  });

  test('a search finds either', () => {
    expect(withUnicodeDomains('from xn--bcher-kva.example, or ada@shop.xn--bcher-kva.example!')).toBe(
      'from bücher.example, or ada@shop.bücher.example!',
    );
    expect(withUnicodeDomains('xn--')).toBe('xn--');
  });

  test('a long text is searched in linear time', () => {
    const text = `${'a'.repeat(500_000)} xn--${'b'.repeat(500_000)} ${'xn-'.repeat(100_000)}`;
    expectCpuBelow(2_000, () => withUnicodeDomains(text));
  });
});
