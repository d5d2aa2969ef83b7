import { describe, expect, it } from '@jest/globals';
import type { Script } from '../../helpers/fakes/fake-imap.ts';
import type { FakeSession } from '../../helpers/fakes/fake-imap-session.ts';
import { at } from '../../helpers/fakes/flood-scripts.ts';
import { HostileGround } from '../../helpers/fakes/hostile-ground.ts';

/** Servers that fall silent or leave: the connection ends in time, and nothing else does. */

const here = new HostileGround();
const COMMANDS = ['SELECT', 'UID FETCH', 'IDLE', 'LIST', 'DONE'];

describe('a server that stops answering', () => {
  it.each(COMMANDS)('at %s', async (name) => {
    await here.failureOf({ command: at(name, () => {}) });
  });

  it.each([
    ['at all', { greeting: null }],
    ['after the greeting', { command: at('CAPABILITY', () => {}) }],
    ['at the login', { command: at('LOGIN', () => {}) }],
    ['after the login', { command: at('NAMESPACE', () => {}) }],
  ] satisfies [string, Script][])('%s', async (_, script) => {
    here.server.script = script;
    await expect(here.account.session()).rejects.toMatchObject({
      code: 'provider_error',
      detail: expect.stringContaining('timed out'),
    });
  });
});

describe('a server that says BYE', () => {
  const bye = (session: FakeSession) => session.socket.end('* BYE overloaded\r\n');
  it.each(COMMANDS)('at %s', async (name) => {
    await here.failureOf({ command: at(name, bye) });
  });
  it.each(['CAPABILITY', 'LOGIN', 'NAMESPACE'])('at %s', async (name) => {
    here.server.script = { command: at(name, bye) };
    await expect(here.account.session()).rejects.toMatchObject({ code: 'provider_error' });
  });
});
