import { describe, expect, it } from '@jest/globals';
import { limitAttempts } from '../../src/api/sign-in-attempts.ts';

describe('limits of wrong passwords', () => {
  const begun = (reached = () => {}) => {
    const attempts = limitAttempts(reached);
    return (ip: string, login: string, isKnown = false) => attempts.begin({ ip, login, isKnown });
  };

  it('hold for one network with many addresses, whole IPv6 networks as one', () => {
    const begin = begun();
    for (let n = 0; n < 50; n++) begin(`2001:db8:1:2::${n}`, `someone-${n}@example.test`);
    expect(() => begin('2001:db8:1:2::ffff', 'ada@example.test')).toThrow(/too many wrong passwords/);
    begin('2001:db8:1:3::1', 'ada@example.test');
  });

  it('hold for one address from many networks, except in browsers of its person, which have their own', () => {
    let reached = 0;
    const begin = begun(() => (reached += 1));
    for (let n = 0; n < 100; n++) begin(`198.51.100.${n % 10}`, 'ada');
    expect(() => begin('203.0.113.1', 'ada')).toThrow(/too many wrong passwords/);
    expect(reached).toBe(1);
    for (let n = 0; n < 10; n++) begin('198.51.100.1', 'ada', true);
    expect(() => begin('198.51.100.1', 'ada', true)).toThrow(/too many wrong passwords/);
    begin('203.0.113.1', 'grace');
  });

  it('do not count right passwords', () => {
    const begin = begun();
    for (let n = 0; n < 200; n++) begin('192.0.2.1', 'ada').succeed();
    for (let n = 0; n < 10; n++) begin('192.0.2.1', 'ada');
    expect(() => begin('192.0.2.1', 'ada')).toThrow();
  });
});
