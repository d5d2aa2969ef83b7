/**
 * Reads a winmail.dat: TNEF (MS-OXTNEF), in which Outlook sends files, a text and properties to recipients that it expects
 * to use Outlook. It is a stream of attributes; attAttachRenddata begins each attachment, whose properties (MS-OXCDATA 2.11)
 * are in attAttachment.
 *
 * ```ts
 * const found = readTnef({ size: bytes.length, read: (at, length) => bytes.subarray(at, at + length) });
 * for (const { name, at, size } of found?.files ?? []) save(name, bytes.subarray(at, at + size));
 * ```
 *
 * No content is copied: a file is a range of the source, which may be a file on disk of any size. False lengths and counts
 * cost nothing: attributes, properties, depth and reads are bounded, and a TNEF that exceeds a bound is not read. Files of
 * embedded messages count; OLE objects, RTF and HTML are not decoded: `hasMore` and `hasText` report them. The folder
 * imports only iconv-lite.
 */
export { readTnef } from './reader.ts';
export type { RandomAccess, TnefContents, TnefFile, TnefLimits } from './types.ts';
