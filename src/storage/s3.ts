import { Readable } from 'node:stream';
import {
  AbortMultipartUploadCommand,
  DeleteObjectsCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  type ListMultipartUploadsCommandOutput,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
} from '@aws-sdk/client-s3';
import { Upload } from '@aws-sdk/lib-storage';
import { PartUnavailable } from '../outage.ts';
import { isKey, segmentsOf, segmentsOfPrefix, StorageMissing } from './keys.ts';
import type { Storage } from './types.ts';

export interface S3Settings {
  bucket: string;
  /** prefix of every key; without slashes around it */
  prefix: string;
  /** another server than Amazon's, addressed in path style */
  endpoint?: string | undefined;
  /** ms without a byte, sent or received, after which a connection is given up; default: one minute */
  idleMs?: number | undefined;
}

/** A client that stops reading for so long loses its download, too: it would hold one of the 50 connections. */
const IDLE_MS = 60_000;

/** S3 accepts no more keys in one delete. */
const DELETE_AT_ONCE = 1000;

/** Objects in an S3 bucket. Credentials and region come from the usual AWS variables, files or roles. */
export function openS3Storage({ bucket, prefix, endpoint, idleMs = IDLE_MS }: S3Settings): Storage {
  const client = new S3Client({
    ...(endpoint ? { endpoint, forcePathStyle: true, region: regionOrDefault } : {}),
    // Servers other than Amazon's often do not know the newer checksums.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    // connectionTimeout: the time for one to be made, or to become free; a burst of large objects keeps all of them busy
    requestHandler: { connectionTimeout: idleMs, socketTimeout: idleMs },
  });
  const root = prefix.replace(/^\/+|\/+$/g, '');
  const full = (segments: string[]): string => (root === '' ? segments : [root, ...segments]).join('/');
  const keyOf = (key: string): string => full(segmentsOf(key));

  async function remove(keys: string[]): Promise<void> {
    for (let start = 0; start < keys.length; start += DELETE_AT_ONCE) {
      const objects = keys.slice(start, start + DELETE_AT_ONCE).map((Key) => ({ Key }));
      const response = await client.send(
        new DeleteObjectsCommand({ Bucket: bucket, Delete: { Objects: objects, Quiet: true } }),
      );
      const failed = response.Errors?.find((error) => error.Code !== 'NoSuchKey');
      if (failed) {
        const cause = new Error(`S3 refused to delete: ${failed.Code ?? 'unknown error'}`);
        throw new PartUnavailable('storage', { cause });
      }
    }
  }

  return {
    async put(key, body) {
      const target = { Bucket: bucket, Key: keyOf(key) };
      if (Buffer.isBuffer(body)) {
        await client.send(new PutObjectCommand({ ...target, Body: body, ContentLength: body.length }));
        return body.length;
      }
      let bytes = 0;
      const counted = Readable.from(
        countBytes(body, (count) => (bytes += count)),
        { objectMode: false },
      );
      await new Upload({ client, params: { ...target, Body: counted } }).done();
      return bytes;
    },

    async get(key, range) {
      const Range = range ? `bytes=${range.start}-${range.end}` : undefined;
      try {
        const { Body } = await client.send(
          new GetObjectCommand({ Bucket: bucket, Key: keyOf(key), ...(Range ? { Range } : {}) }),
        );
        if (Body instanceof Readable) return Body;
        throw new Error('S3 sent no body');
      } catch (error) {
        throw isMissing(error) ? new StorageMissing(key) : error;
      }
    },

    async size(key) {
      try {
        const { ContentLength } = await client.send(new HeadObjectCommand({ Bucket: bucket, Key: keyOf(key) }));
        return ContentLength;
      } catch (error) {
        if (isMissing(error)) return undefined;
        throw error;
      }
    },

    async delete(keys) {
      await remove(keys.map(keyOf));
    },

    async deletePrefix(prefix) {
      const Prefix = `${full(segmentsOfPrefix(prefix))}/`;
      await abortUploads(client, { Bucket: bucket, Prefix });
      let ContinuationToken: string | undefined;
      do {
        const page = await client.send(
          new ListObjectsV2Command({ Bucket: bucket, Prefix, ...(ContinuationToken ? { ContinuationToken } : {}) }),
        );
        await remove((page.Contents ?? []).flatMap(({ Key }) => (Key === undefined ? [] : [Key])));
        ContinuationToken = page.IsTruncated ? page.NextContinuationToken : undefined;
      } while (ContinuationToken);
    },

    async list(prefix, after) {
      const { Contents = [] } = await client.send(
        new ListObjectsV2Command({
          Bucket: bucket,
          Prefix: `${full(segmentsOfPrefix(prefix))}/`,
          ...(after === undefined ? {} : { StartAfter: keyOf(after) }),
        }),
      );
      return Contents.flatMap(({ Key, LastModified }) => {
        const key = Key?.slice(root === '' ? 0 : root.length + 1) ?? '';
        return isKey(key) ? [{ key, modifiedAt: LastModified ?? new Date() }] : [];
      });
    },

    async deleteUnfinished(prefix, before) {
      await abortUploads(client, { Bucket: bucket, Prefix: `${full(segmentsOfPrefix(prefix))}/` }, before);
    },
  };
}

/** Servers without these calls, and credentials without their permissions: the parts stay, and all else works. */
const NOT_OFFERED = /^(NotImplemented|MethodNotAllowed|AccessDenied)$/;

/** Aborts uploads in parts, all or those that began before `before`: no list of objects shows their parts. */
async function abortUploads(client: S3Client, where: { Bucket: string; Prefix: string }, before?: Date): Promise<void> {
  try {
    let next: { KeyMarker?: string | undefined; UploadIdMarker?: string | undefined } | undefined = {};
    while (next) {
      const page: ListMultipartUploadsCommandOutput = await client.send(
        new ListMultipartUploadsCommand({ ...where, ...next }),
      );
      for (const { Key, UploadId, Initiated } of page.Uploads ?? []) {
        if (before && !(Initiated && Initiated < before)) continue;
        await client
          .send(new AbortMultipartUploadCommand({ Bucket: where.Bucket, Key, UploadId }))
          .catch((error: unknown) => {
            if ((error as Error).name !== 'NoSuchUpload') throw error;
          });
      }
      const { IsTruncated, NextKeyMarker: KeyMarker, NextUploadIdMarker: UploadIdMarker } = page;
      next = IsTruncated && KeyMarker ? { KeyMarker, UploadIdMarker } : undefined;
    }
  } catch (error) {
    if (!NOT_OFFERED.test((error as Error).name)) throw error;
  }
}

/** The region of the AWS settings. Servers other than Amazon's need none, but the signature has one. */
async function regionOrDefault(): Promise<string> {
  try {
    return await new S3Client({}).config.region();
  } catch {
    return 'us-east-1';
  }
}

async function* countBytes(body: Readable, count: (bytes: number) => void): AsyncGenerator<Buffer> {
  for await (const chunk of body) {
    const bytes = Buffer.from(chunk as Uint8Array);
    count(bytes.length);
    yield bytes;
  }
}

function isMissing(error: unknown): boolean {
  const { name } = error as Error;
  return name === 'NoSuchKey' || name === 'NotFound';
}
