/**
 * Reads a winmail.dat: TNEF (MS-OXTNEF), in which Outlook sends files, a text and properties to readers that it takes for its
 * like. It is a stream of attributes; attAttachRenddata begins each attachment, whose properties (MS-OXCDATA 2.11) are in
 * attAttachment.
 *
 * ```ts
 * const found = readTnef({ size: bytes.length, read: (at, length) => bytes.subarray(at, at + length) });
 * for (const { name, at, size } of found?.files ?? []) save(name, bytes.subarray(at, at + size));
 * ```
 *
 * No content is copied: a file is a place in the source, which may be a file on disk of any size. What a TNEF claims of its
 * lengths and counts costs nothing: its attributes, properties, depth and reads are bounded, and what does not fit makes it no
 * TNEF. Files of embedded messages count; OLE objects, RTF and HTML are not decoded, `hasMore` and `hasText` say that they are
 * there. The folder imports nothing but iconv-lite.
 */
export { readTnef } from './reader.ts';
export type { RandomAccess, TnefContents, TnefFile, TnefLimits } from './types.ts';
