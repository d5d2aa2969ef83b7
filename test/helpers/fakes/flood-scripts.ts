import type { FakeSession } from './fake-imap-session.ts';
import type { Script } from './fake-imap.ts';

/** A script that runs a function at a command instead of answering it. */
export const at =
  (name: string, act: (session: FakeSession, tag: string) => void): NonNullable<Script['command']> =>
  (command, session) => {
    if (command.name !== name) return false;
    act(session, command.tag);
    return true;
  };

/** Writes as long as the other side reads. */
export function forever(session: FakeSession, piece: (count: number) => string | Buffer): void {
  let count = 0;
  const more = () => {
    while (!session.socket.destroyed && session.socket.write(piece(count++)));
  };
  session.socket.on('drain', more);
  more();
}

const BLOCK = 64 * 1024;
const MiB = 1024 * 1024;

/** Lines that fill a block, the same ones forever. */
const block = (line: string) => Buffer.from(line.repeat(Math.ceil(BLOCK / line.length)));

const flood = (command: string, line: string, before = ''): Script => {
  const lines = block(line);
  return { command: at(command, (session) => forever(session, (count) => (count === 0 ? before : lines))) };
};

/** A line of nearly the largest length. */
const long = (start: string, more: string, end = '') =>
  `${start}${more.repeat(Math.floor((MiB - 1_000) / more.length))}${end}\r\n`;

/** Floods of a server, by name. */
export const FLOODS: Record<string, Script> = {
  'short lines while idling': flood('IDLE', '* OK x\r\n', '+ idling\r\n'),
  'changed flags while idling': flood('IDLE', '* 1 FETCH (FLAGS (\\Seen))\r\n', '+ idling\r\n'),
  'EXISTS while idling': flood('IDLE', '* 1 EXISTS\r\n', '+ idling\r\n'),
  'long lines while idling': flood('IDLE', long('* X (', 'a '), '+ idling\r\n'),
  'lines of many words while idling': flood('IDLE', `* X (${'a '.repeat(19_000)})\r\n`, '+ idling\r\n'),
  'empty lines while idling': flood('IDLE', '\r\n', '+ idling\r\n'),
  'literals while idling': flood('IDLE', `* X {${BLOCK}}\r\n${'a'.repeat(BLOCK)}\r\n`, '+ idling\r\n'),
  'small literals while idling': flood('IDLE', `* X ({1}\r\na {1}\r\na {1}\r\na {1}\r\na)\r\n`, '+ idling\r\n'),
  'continuations while idling': flood('IDLE', '+ idling\r\n'),
  'lines as a greeting': { greeting: '* OK x\r\n'.repeat(200_000) },
  'CAPABILITY lines': flood('CAPABILITY', '* CAPABILITY IMAP4rev1 IDLE A B C D E F\r\n'),
  'CAPABILITY of many words': flood('CAPABILITY', long('* CAPABILITY', ' AB')),
  'LOGIN lines': flood('LOGIN', '* OK x\r\n'),
  'LIST lines': flood('LIST', '* LIST () "/" f\r\n'),
  'LIST lines with literals': flood('LIST', '* LIST (\\Subscribed) "/" {1}\r\nf\r\n'),
  'a LIST of many folders': {
    command: at('LIST', (session, tag) => {
      for (let n = 0; n < 80_000; n++) session.write(`* LIST () "/" "f${(n * 7919) % 80_000}/x"\r\n`);
      session.write(`${tag} OK done\r\n`);
    }),
  },
  'SEARCH lines': flood('UID SEARCH', '* SEARCH 1 2 3 4 5\r\n'),
  'SEARCH of many UIDs': flood('UID SEARCH', long('* SEARCH', ' 1')),
  'FETCH lines': flood('UID FETCH', '* 1 FETCH (UID 1 FLAGS ())\r\n'),
  'FETCH of many flags': flood('UID FETCH', long('* 1 FETCH (UID 1 FLAGS (', 'a ', 'a))')),
  'nested lists': flood('UID FETCH', long('* 1 FETCH (UID 1 BODYSTRUCTURE ', '(')),
  'one line without end': flood('UID FETCH', 'a'.repeat(BLOCK)),
  'large literals': flood('UID FETCH', `* 1 FETCH (UID 1 BODY[] {${8 * MiB}}\r\n${'a'.repeat(8 * MiB)})\r\n`),
  'a huge literal': flood('UID FETCH', 'a'.repeat(BLOCK), '* 1 FETCH (UID 1 BODY[] {67108864}\r\n'),
  'quoted strings': flood('UID FETCH', long('* 1 FETCH (UID 1 EMAILID "', '\\\\', '")')),
  'FETCH lines of a large folder': {
    ...flood('UID FETCH', '* 1 FETCH (UID 1 FLAGS ())\r\n'),
    answer: (text) => text.replace(/\* \d+ EXISTS/, '* 4000000 EXISTS'),
  },
  VANISHED: flood('IDLE', long('* VANISHED 1', ',1:2'), '+ idling\r\n'),
};
