/* TNEF (MS-OXTNEF), written for the tests. */

export const u32 = (value: number) => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value >>> 0);
  return bytes;
};
const pad = (bytes: Buffer) => Buffer.concat([bytes, Buffer.alloc((4 - (bytes.length % 4)) % 4)]);

export function attribute(level: 1 | 2, id: number, data: Buffer): Buffer {
  let sum = 0;
  for (const byte of data) sum = (sum + byte) & 0xffff;
  return Buffer.concat([Buffer.from([level]), u32(id), u32(data.length), data, u32(sum).subarray(0, 2)]);
}

export type Property = [type: number, id: number, value: Buffer];
export const text8 = (id: number, value: string): Property => [0x1e, id, Buffer.from(`${value}\0`, 'latin1')];
export const text16 = (id: number, value: string): Property => [0x1f, id, Buffer.from(`${value}\0`, 'utf16le')];
const VARIABLE = new Set([0x1e, 0x1f, 0x0d, 0x102]);

export function properties(...list: Property[]): Buffer {
  const written = list.map(([type, id, value]) => {
    const named = id >= 0x8000 ? [Buffer.alloc(16, 7), u32(1), u32(6), pad(Buffer.from('abc', 'utf16le'))] : [];
    const head = Buffer.concat([u32(type | (id << 16)), ...named]);
    return VARIABLE.has(type) ? [head, u32(1), u32(value.length), pad(value)] : [head, value];
  });
  return Buffer.concat([u32(list.length), ...written.flat()]);
}

interface File {
  title?: string;
  data?: Buffer;
  properties?: Property[];
}

/** A TNEF of these files; `more` are attributes before them. */
export function tnef(
  files: File[],
  { codepage = 1252, more = [] }: { codepage?: number; more?: Buffer[] } = {},
): Buffer {
  const attributes = files.flatMap(({ title, data, properties: list }) => [
    attribute(2, 0x00069002, Buffer.alloc(14)),
    ...(title === undefined ? [] : [attribute(2, 0x00018010, Buffer.from(`${title}\0`, 'latin1'))]),
    ...(data === undefined ? [] : [attribute(2, 0x0006800f, data)]),
    ...(list === undefined ? [] : [attribute(2, 0x00069005, properties(...list))]),
  ]);
  const message = [
    attribute(1, 0x00089006, u32(0x10000)),
    attribute(1, 0x00069007, Buffer.concat([u32(codepage), u32(0)])),
    ...more,
  ];
  return Buffer.concat([u32(0x223e9f78), Buffer.from([1, 0]), ...message, ...attributes]);
}

export const accessTo = (content: Buffer) => ({
  size: content.length,
  read: (at: number, length: number) => content.subarray(at, at + length),
});
