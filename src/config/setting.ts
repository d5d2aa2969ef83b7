import { readFileSync } from 'node:fs';
import ipaddr from 'ipaddr.js';
import { parseDuration } from '../duration.ts';

/*
 * Each function reads one setting from the environment by its name. It returns the value, or the default of an absent
 * one, and throws ConfigError when the value is wrong.
 */

export type Env = Readonly<Record<string, string | undefined>>;

/** The least and the greatest value. */
type Range = readonly [min: number, max: number];

/** A setting is missing or wrong. The message is one line that names it and never repeats a secret. */
export class ConfigError extends Error {
  override name = 'ConfigError';
  readonly setting: string;
  constructor(setting: string, problem: string) {
    super(`${setting} ${problem}`);
    this.setting = setting;
  }
}

/** The value without spaces around it; undefined when it is absent or empty. */
export function text(env: Env, name: string): string | undefined {
  const value = env[name]?.trim();
  return value === '' ? undefined : value;
}

/** The value. Throws when it is absent, saying that it must be `what`. */
export function required(env: Env, name: string, what: string): string {
  const value = text(env, name);
  if (value === undefined) throw new ConfigError(name, `is not set: ${what}`);
  return value;
}

/** A whole number from `min` to `max`. */
export function integer(env: Env, name: string, fallback: number, [min, max]: Range): number {
  const value = text(env, name);
  if (value === undefined) return fallback;
  const number = /^\d{1,12}$/.test(value) ? Number(value) : Number.NaN;
  if (!(number >= min && number <= max)) {
    throw new ConfigError(name, `must be a whole number from ${min} to ${max}, not ${quote(value)}`);
  }
  return number;
}

/** One of the values of `values`, by its name in upper or lower case. */
export function oneOf<T extends string>(env: Env, name: string, values: Readonly<Record<string, T>>, fallback: T): T {
  const value = text(env, name);
  if (value === undefined) return fallback;
  const named = Object.hasOwn(values, value.toLowerCase()) ? values[value.toLowerCase()] : undefined;
  if (named === undefined) {
    throw new ConfigError(name, `must be one of ${Object.keys(values).join(', ')}, not ${quote(value)}`);
  }
  return named;
}

/** A time from `min` to `max`, all in ms. */
export function duration(env: Env, name: string, fallback: number, range: Range): number {
  const value = text(env, name);
  return value === undefined ? fallback : oneDuration(name, value, range);
}

/** A comma-separated list of times from `min` to `max` ms each. */
export function durations(env: Env, name: string, fallback: string, range: Range): number[] {
  return (text(env, name) ?? fallback).split(',').map((part) => oneDuration(name, part.trim(), range));
}

function oneDuration(name: string, value: string, [min, max]: Range): number {
  const ms = parseDuration(value);
  if (ms === undefined) throw new ConfigError(name, `must be a time such as 500ms, 30s, 5m or 2h, not ${quote(value)}`);
  if (ms < min || ms > max) throw new ConfigError(name, `must be from ${min} ms to ${max} ms, not ${quote(value)}`);
  return ms;
}

/** 32 bytes in base64. */
export function key(env: Env, name: string): Buffer {
  const value = required(env, name, '32 random bytes in base64, for example from `openssl rand -base64 32`');
  const bytes = Buffer.from(value, 'base64');
  if (!/^[A-Za-z0-9+/_-]{43}=?$/.test(value) || bytes.length !== 32) {
    throw new ConfigError(name, 'must be 32 bytes in base64, for example from `openssl rand -base64 32`');
  }
  return bytes;
}

/** A key of printable ASCII, for a header. */
export function apiKey(env: Env, name: string): string | undefined {
  const value = text(env, name);
  if (value !== undefined && !/^[\x21-\x7e]{20,200}$/.test(value)) {
    throw new ConfigError(name, 'must be 20 to 200 printable ASCII characters without spaces');
  }
  return value;
}

/** A comma-separated list of networks. */
export function cidrs(env: Env, name: string): string[] {
  const parts = (text(env, name) ?? '').split(',').map((part) => part.trim());
  return parts
    .filter((part) => part !== '')
    .map((part) => {
      if (!ipaddr.isValidCIDR(part)) {
        throw new ConfigError(name, `must be a list such as 10.0.0.0/8,fd00::/8; ${quote(part)} is not a CIDR`);
      }
      return part;
    });
}

/** A URL with one of these protocols. */
export function url(name: string, value: string, protocols: readonly string[]): URL {
  const parsed = URL.canParse(value) ? new URL(value) : undefined;
  if (parsed === undefined || !protocols.includes(parsed.protocol)) {
    // a URL may hold a password: it is not repeated
    throw new ConfigError(name, `must be a URL that begins with ${protocols.map((p) => `${p}//`).join(' or ')}`);
  }
  return parsed;
}

/** The content of the file that the setting names. */
export function pem(env: Env, name: string): Buffer | undefined {
  const path = text(env, name);
  if (path === undefined) return undefined;
  try {
    return readFileSync(path);
  } catch {
    throw new ConfigError(name, `names a file that cannot be read: ${path}`);
  }
}

/** A value as shown to the operator, shortened. */
export function quote(value: string): string {
  return JSON.stringify(value.length > 60 ? `${value.slice(0, 60)}…` : value);
}
