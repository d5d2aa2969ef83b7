/** No object has that key. */
export class StorageMissing extends Error {
  override readonly name = 'StorageMissing';
  readonly key: string;
  constructor(key: string) {
    super(`no stored object ${key}`);
    this.key = key;
  }
}

const SEGMENT = /^[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}$/;

/**
 * The segments of a key. They hold letters, digits, `_`, `-` and `.`, and none begins with a dot: no key points outside
 * the storage.
 * @throws Error for any other key
 */
export function segmentsOf(key: string): string[] {
  const segments = key.split('/');
  if (!isKey(key)) throw new Error('not a storage key');
  return segments;
}

/** Whether `segmentsOf` accepts it. */
export function isKey(key: string): boolean {
  return key.split('/').every((segment) => SEGMENT.test(segment));
}

/** The segments of a prefix, which must end in `/`. @throws Error for any other prefix */
export function segmentsOfPrefix(prefix: string): string[] {
  if (!prefix.endsWith('/')) throw new Error('a storage prefix must end in /');
  return segmentsOf(prefix.slice(0, -1));
}
