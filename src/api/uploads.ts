import { randomBytes } from 'node:crypto';
import type { Readable } from 'node:stream';
import { ApiError } from '../contract/errors.ts';
import type { Queryable } from '../db/driver/client.ts';
import { addPart, findUpload, partKeyOf } from '../outgoing/uploads.ts';
import type { Storage } from '../storage/storage.ts';

export interface UploadDeps {
  db: Queryable;
  storage: Storage;
}

/** Bytes of one stored object: a process that is killed loses so many of each body at most. */
const PIECE_BYTES = 4 * 1024 * 1024;

/** Where a body belongs in an upload: offsets of its first byte, and of the byte after its last. */
export interface Place {
  id: string;
  from: number;
  until: number;
}

/**
 * Stores a body piece by piece, without what is stored already: calls with the same bytes may run at the same time. What has
 * arrived when the connection is lost stays. `onPiece` gets all of the body in its order.
 * @throws ApiError invalid_parameters when the body is longer than its place or ends with its connection; not_found when the
 * upload was deleted
 */
export async function storeBody(
  deps: UploadDeps,
  { id, from, until }: Place,
  body: Readable,
  onPiece: (piece: Buffer) => void = () => {},
): Promise<void> {
  let stored = await receivedOf(deps, id);
  let offset = from;
  for await (const piece of piecesOf(body)) {
    const next = offset + piece.length;
    if (next > until) throw new ApiError('invalid_parameters', `the body is longer than ${until - from} bytes`);
    onPiece(piece);
    while (stored < next) stored = await storePiece(deps, id, stored, piece.subarray(stored - offset));
    offset = next;
  }
}

/**
 * Reads a body of at most `most` bytes without storing it. `onPiece` gets all of it in its order.
 * @throws ApiError invalid_parameters when it is longer or ends with its connection
 */
export async function readBody(body: Readable, most: number, onPiece: (piece: Buffer) => void): Promise<void> {
  let length = 0;
  for await (const piece of piecesOf(body)) {
    length += piece.length;
    if (length > most) throw new ApiError('invalid_parameters', `the body is longer than ${most} bytes`);
    onPiece(piece);
  }
}

/** Stores bytes at an offset unless another call has. @returns the offset of the first byte that is not stored */
async function storePiece({ db, storage }: UploadDeps, id: string, start: number, bytes: Buffer): Promise<number> {
  const key = partKeyOf(id, start, randomBytes(4).toString('hex'));
  try {
    await storage.put(key, bytes);
  } catch (error) {
    // the key that encrypts it is deleted with it
    await receivedOf({ db }, id);
    throw error;
  }
  if (await addPart(db, id, { key, start, size: bytes.length })) return start + bytes.length;
  await storage.delete([key]);
  return receivedOf({ db }, id);
}

async function receivedOf({ db }: Pick<UploadDeps, 'db'>, id: string): Promise<number> {
  const upload = await findUpload(db, id);
  if (!upload) throw new ApiError('not_found', 'no upload has this id');
  return upload.received;
}

async function* piecesOf(body: Readable): AsyncGenerator<Buffer> {
  let chunks: Buffer[] = [];
  let length = 0;
  const flush = () => {
    const piece = Buffer.concat(chunks);
    [chunks, length] = [[], 0];
    return piece;
  };
  let lost: unknown;
  try {
    // the stream of a request carries its response too, and is not destroyed here
    for await (const chunk of body.iterator({ destroyOnReturn: false })) {
      chunks.push(chunk as Buffer);
      length += (chunk as Buffer).length;
      if (length >= PIECE_BYTES) yield flush();
    }
  } catch (error) {
    lost = error;
  }
  if (length > 0) yield flush();
  if (lost) {
    throw new ApiError('invalid_parameters', 'the connection was lost before the end of the body', { cause: lost });
  }
}
