import { randomBytes, scrypt, type ScryptOptions, timingSafeEqual } from 'node:crypto';
import { promisify } from 'node:util';
import { createLimiter } from '../async.ts';

/*
 * Passwords of people: scrypt (RFC 7914) with a salt for each. What is stored holds the parameters, so that raising them keeps
 * earlier passwords: `scrypt$15$8$3$<salt>$<digest>` (log2 of N, r, p; base64url).
 */

const derive = promisify<string, Buffer, number, ScryptOptions, Buffer>(scrypt);

/** What OWASP's password storage cheat sheet proposes: 32 MiB of memory for each. */
const COST = { log2N: 15, r: 8, p: 3 };
const SALT_BYTES = 16;
const DIGEST_BYTES = 32;
const STORED = /^scrypt\$(\d+)\$(\d+)\$(\d+)\$([\w-]+)\$([\w-]+)$/;

/** One at a time: guesses occupy one core, and one of the threads that also read files and look up hosts. */
const limit = createLimiter(1);

interface Parameters {
  log2N: number;
  r: number;
  p: number;
}

function digestOf(password: string, salt: Buffer, { log2N, r, p }: Parameters): Promise<Buffer> {
  const N = 2 ** log2N;
  // the same characters can be typed in two forms
  return limit(() => derive(password.normalize('NFC'), salt, DIGEST_BYTES, { N, r, p, maxmem: 256 * N * r }));
}

/** What is stored of a password. */
export async function sealPassword(password: string): Promise<string> {
  const salt = randomBytes(SALT_BYTES);
  const digest = await digestOf(password, salt, COST);
  return ['scrypt', COST.log2N, COST.r, COST.p, salt.toString('base64url'), digest.toString('base64url')].join('$');
}

/** Whether the password is the stored one. Takes as long when nothing is stored (null), and is false then. */
export async function isPassword(password: string, stored: string | null): Promise<boolean> {
  const [, log2N, r, p, salt = '', digest = ''] = STORED.exec(stored ?? '') ?? [];
  if (digest === '') {
    await digestOf(password, randomBytes(SALT_BYTES), COST);
    return false;
  }
  const parameters = { log2N: Number(log2N), r: Number(r), p: Number(p) };
  const given = await digestOf(password, Buffer.from(salt, 'base64url'), parameters);
  return timingSafeEqual(given, Buffer.from(digest, 'base64url'));
}
