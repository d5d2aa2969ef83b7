import { readFileSync } from 'node:fs';
import ipaddr from 'ipaddr.js';
import { DAY, HOUR, MINUTE, parseDuration, SECOND } from '../duration.ts';

/*
 * The kinds of settings. Each function makes a setting: its row of docs/settings.md, and how its value is read from the
 * environment.
 */

export type Env = Readonly<Record<string, string | undefined>>;

/** One environment variable. The texts are Markdown. */
export interface Setting<T> {
  meaning: string;
  /** the values that it takes, with their unit */
  values: string;
  /** `''`: it has none */
  default: string;
  /** Returns the value, or the default when it is absent or empty. @throws ConfigError */
  read(env: Env, name: string): T;
}

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
export function valueOf(env: Env, name: string): string | undefined {
  const value = env[name]?.trim();
  return value === '' ? undefined : value;
}

/** The value. Throws when it is absent, saying that it must be `what`. */
export function required(env: Env, name: string, what: string): string {
  const value = valueOf(env, name);
  if (value === undefined) throw new ConfigError(name, `is not set: ${what}`);
  return value;
}

/** Any text. */
export function text(meaning: string, values: string, fallback: string): Setting<string> {
  return { meaning, values, default: code(fallback), read: (env, name) => valueOf(env, name) ?? fallback };
}

/** Any text, without a default. `absent` says what applies then. */
export function optionalText(meaning: string, values: string, absent = ''): Setting<string | undefined> {
  return { meaning, values, default: absent, read: valueOf };
}

/** A whole number of `unit`. */
export function integer(meaning: string, unit: string, fallback: number, range: Range): Setting<number> {
  return {
    meaning,
    values: `${unit}, ${range.map((bound) => bound.toLocaleString('en-US')).join(' to ')}`,
    default: code(String(fallback)),
    read: (env, name) => wholeNumber(env, name, range) ?? fallback,
  };
}

/** A whole number from `min` to `max`; undefined when it is absent. */
export function wholeNumber(env: Env, name: string, [min, max]: Range): number | undefined {
  const value = valueOf(env, name);
  if (value === undefined) return undefined;
  const number = /^\d{1,12}$/.test(value) ? Number(value) : Number.NaN;
  if (!(number >= min && number <= max)) {
    throw new ConfigError(name, `must be a whole number from ${min} to ${max}, not ${quote(value)}`);
  }
  return number;
}

/** One of the values of `names`, by its name in upper or lower case; those of `shown` are documented. */
export function oneOf<T extends string>(
  meaning: string,
  names: Readonly<Record<string, T>>,
  fallback: NoInfer<T>,
  shown: readonly string[] = Object.keys(names),
): Setting<T> {
  const [usual = fallback] = shown.filter((name) => names[name] === fallback);
  return {
    meaning,
    values: shown.map(code).join(', '),
    default: code(usual),
    read: (env, name) => namedValue(env, name, names) ?? fallback,
  };
}

function namedValue<T extends string>(env: Env, name: string, names: Readonly<Record<string, T>>): T | undefined {
  const value = valueOf(env, name);
  if (value === undefined) return undefined;
  const named = Object.hasOwn(names, value.toLowerCase()) ? names[value.toLowerCase()] : undefined;
  if (named === undefined) {
    throw new ConfigError(name, `must be one of ${Object.keys(names).join(', ')}, not ${quote(value)}`);
  }
  return named;
}

const ON_OFF = { true: 'on', false: 'off' } as const;

/** `true` or `false`. */
export function flag(meaning: string, fallback: boolean): Setting<boolean> {
  const { values, read } = optionalFlag(meaning);
  return { meaning, values, default: code(String(fallback)), read: (env, name) => read(env, name) ?? fallback };
}

/** `true` or `false`, without a default. `absent` says what applies then. */
export function optionalFlag(meaning: string, absent = ''): Setting<boolean | undefined> {
  return {
    meaning,
    values: '`true`, `false`',
    default: absent,
    read(env, name) {
      const value = namedValue(env, name, ON_OFF);
      return value === undefined ? undefined : value === 'on';
    },
  };
}

/** A time, read as ms. */
export function duration(meaning: string, fallback: number, range: Range): Setting<number> {
  return {
    meaning,
    values: `time, ${range.map(shownDuration).join(' to ')}`,
    default: code(shownDuration(fallback)),
    read(env, name) {
      const value = valueOf(env, name);
      return value === undefined ? fallback : oneDuration(name, value, range);
    },
  };
}

/** A comma-separated list of times, read as ms. */
export function durations(meaning: string, fallback: string, range: Range): Setting<number[]> {
  return {
    meaning,
    values: `times, comma-separated, each ${range.map(shownDuration).join(' to ')}`,
    default: code(fallback),
    read: (env, name) =>
      (valueOf(env, name) ?? fallback).split(',').map((part) => oneDuration(name, part.trim(), range)),
  };
}

function oneDuration(name: string, value: string, [min, max]: Range): number {
  const ms = parseDuration(value);
  if (ms === undefined) throw new ConfigError(name, `must be a time such as 500ms, 30s, 5m or 2h, not ${quote(value)}`);
  if (ms < min || ms > max) throw new ConfigError(name, `must be from ${min} ms to ${max} ms, not ${quote(value)}`);
  return ms;
}

/** A time as a setting takes it, in its largest whole unit; days from the third on. */
function shownDuration(ms: number): string {
  if (ms === 0) return '0';
  const [size, unit] = DURATION_UNITS.find(([size]) => ms % size === 0 && (size < DAY || ms > 2 * DAY)) ?? [1, 'ms'];
  return `${ms / size}${unit}`;
}

const DURATION_UNITS = [[DAY, 'd'] as const, [HOUR, 'h'] as const, [MINUTE, 'm'] as const, [SECOND, 's'] as const];

/** The value, which must be 32 bytes in base64. */
export function keyOf(env: Env, name: string): Buffer {
  const value = required(env, name, '32 random bytes in base64, for example from `openssl rand -base64 32`');
  const bytes = Buffer.from(value, 'base64');
  if (!/^[A-Za-z0-9+/_-]{43}=?$/.test(value) || bytes.length !== 32) {
    throw new ConfigError(name, 'must be 32 bytes in base64, for example from `openssl rand -base64 32`');
  }
  return bytes;
}

/** A key of printable ASCII, for a header. */
export function apiKey(meaning: string, absent: string): Setting<string | undefined> {
  return {
    meaning,
    values: '20 to 200 printable ASCII characters without spaces',
    default: absent,
    read(env, name) {
      const value = valueOf(env, name);
      if (value !== undefined && !/^[\x21-\x7e]{20,200}$/.test(value)) {
        throw new ConfigError(name, 'must be 20 to 200 printable ASCII characters without spaces');
      }
      return value;
    },
  };
}

/** A comma-separated list of networks. */
export function cidrs(meaning: string, absent: string): Setting<string[]> {
  return { meaning, values: 'CIDRs, comma-separated', default: absent, read: cidrsOf };
}

/** The parts of a comma-separated value; none when it is absent. */
export function partsOf(env: Env, name: string): string[] {
  const parts = (valueOf(env, name) ?? '').split(',').map((part) => part.trim());
  return parts.filter((part) => part !== '');
}

/** The networks of the value; none when it is absent. */
export function cidrsOf(env: Env, name: string): string[] {
  return partsOf(env, name).map((part) => {
    if (!ipaddr.isValidCIDR(part)) {
      throw new ConfigError(name, `must be a list such as 10.0.0.0/8,fd00::/8; ${quote(part)} is not a CIDR`);
    }
    return part;
  });
}

/** An `http:` or `https:` URL, read without a trailing slash. */
export function endpoint(meaning: string, absent = ''): Setting<string | undefined> {
  return {
    meaning,
    values: 'URL',
    default: absent,
    read(env, name) {
      const value = valueOf(env, name);
      return value === undefined ? undefined : parsedUrl(name, value, ['http:', 'https:']).href.replace(/\/+$/, '');
    },
  };
}

/** A URL with one of these protocols. */
export function parsedUrl(name: string, value: string, protocols: readonly string[]): URL {
  const parsed = URL.canParse(value) ? new URL(value) : undefined;
  if (parsed === undefined || !protocols.includes(parsed.protocol)) {
    // a URL may hold a password: it is not repeated
    throw new ConfigError(name, `must be a URL that begins with ${protocols.map((p) => `${p}//`).join(' or ')}`);
  }
  return parsed;
}

/** A PEM file, read whole. */
export function pem(meaning: string): Setting<Buffer | undefined> {
  return {
    meaning,
    values: 'path of a PEM file',
    default: '',
    read(env, name) {
      const path = valueOf(env, name);
      if (path === undefined) return undefined;
      try {
        return readFileSync(path);
      } catch {
        throw new ConfigError(name, `names a file that cannot be read: ${path}`);
      }
    },
  };
}

/** A value as shown to the operator, shortened. */
export function quote(value: string): string {
  return JSON.stringify(value.length > 60 ? `${value.slice(0, 60)}…` : value);
}

const code = (value: string) => `\`${value}\``;
