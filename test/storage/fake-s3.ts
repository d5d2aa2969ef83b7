import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { listenOnFreePort } from '../helpers/servers/free-port.ts';

/*
 * The few operations of S3 that the storage uses, in memory: a fake server, since the tests have no real one.
 * It checks that requests are signed, not their signatures. Lists come in pages of 100.
 */
export interface FakeS3 {
  endpoint: string;
  objects: Map<string, Buffer>;
  /** multipart uploads begun and neither completed nor aborted */
  uploads: Map<string, Map<number, Buffer>>;
  /** when uploads were begun, according to the list of them */
  begun: Date;
  /** error codes of the list of uploads, and of each key of a delete */
  refusals: { uploads?: string; delete?: string };
  close(): Promise<void>;
}

const PAGE = 100;

export async function startFakeS3(): Promise<FakeS3> {
  const objects = new Map<string, Buffer>();
  const uploads = new Map<string, Map<number, Buffer>>();
  const fake = { objects, uploads, begun: new Date(), refusals: {} as FakeS3['refusals'] };
  const server = createServer((request, response) => {
    void readBody(request).then((body) => answer(request, response, body));
  });

  function answer(request: IncomingMessage, response: ServerResponse, body: Buffer): void {
    const url = new URL(request.url ?? '', 'http://localhost');
    const [bucket, ...rest] = decodeURIComponent(url.pathname.slice(1)).split('/');
    const key = rest.join('/');
    const uploadId = url.searchParams.get('uploadId');
    if (!request.headers.authorization?.startsWith('AWS4-HMAC-SHA256')) return fail(response, 403, 'AccessDenied');
    if (bucket !== 'mails') return fail(response, 404, 'NoSuchBucket');
    if (request.method === 'GET' && url.searchParams.has('uploads')) return listUploads(url, response);
    if (request.method === 'GET' && key === '') return list(url, response);
    if (request.method === 'GET' || request.method === 'HEAD') return read(request, response, key);
    if (request.method === 'POST' && url.searchParams.has('delete')) return remove(response, body);
    if (request.method === 'POST' && url.searchParams.has('uploads')) {
      uploads.set(key, new Map());
      return xml(
        response,
        `<InitiateMultipartUploadResult><UploadId>${key}</UploadId></InitiateMultipartUploadResult>`,
      );
    }
    if (request.method === 'PUT' && uploadId) {
      uploads.get(uploadId)?.set(Number(url.searchParams.get('partNumber')), body);
      response.setHeader('etag', '"part"').end();
    } else if (request.method === 'POST' && uploadId) {
      const parts = [...(uploads.get(uploadId) ?? [])].sort(([a], [b]) => a - b);
      objects.set(key, Buffer.concat(parts.map(([, part]) => part)));
      uploads.delete(uploadId);
      xml(response, '<CompleteMultipartUploadResult><ETag>"all"</ETag></CompleteMultipartUploadResult>');
    } else if (request.method === 'PUT') {
      objects.set(key, body);
      response.setHeader('etag', '"one"').end();
    } else if (request.method === 'DELETE' && uploadId) {
      uploads.delete(uploadId);
      response.writeHead(204).end();
    } else fail(response, 501, 'NotImplemented');
  }

  function listUploads(url: URL, response: ServerResponse): void {
    if (fake.refusals.uploads) return fail(response, 501, fake.refusals.uploads);
    const after = url.searchParams.get('key-marker') ?? '';
    const prefix = url.searchParams.get('prefix') ?? '';
    const found = [...uploads.keys()].filter((key) => key.startsWith(prefix) && key > after).sort();
    const page = found.slice(0, PAGE);
    const next =
      found.length > PAGE ? `<IsTruncated>true</IsTruncated><NextKeyMarker>${page.at(-1)}</NextKeyMarker>` : '';
    const at = fake.begun.toISOString();
    const shown = page.map(
      (key) => `<Upload><Key>${key}</Key><UploadId>${key}</UploadId><Initiated>${at}</Initiated></Upload>`,
    );
    xml(response, `<ListMultipartUploadsResult>${next}${shown.join('')}</ListMultipartUploadsResult>`);
  }

  function list(url: URL, response: ServerResponse): void {
    const after = url.searchParams.get('continuation-token') ?? url.searchParams.get('start-after') ?? '';
    const prefix = url.searchParams.get('prefix') ?? '';
    const found = [...objects.keys()].filter((key) => key.startsWith(prefix) && key > after).sort();
    const page = found.slice(0, PAGE);
    const next =
      found.length > PAGE
        ? `<IsTruncated>true</IsTruncated><NextContinuationToken>${page.at(-1)}</NextContinuationToken>`
        : '';
    xml(
      response,
      `<ListBucketResult>${next}${page.map((key) => `<Contents><Key>${key}</Key><LastModified>2024-05-06T07:08:09.000Z</LastModified></Contents>`).join('')}</ListBucketResult>`,
    );
  }

  function read(request: IncomingMessage, response: ServerResponse, key: string): void {
    const object = objects.get(key);
    if (!object) return fail(response, 404, 'NoSuchKey', request.method === 'HEAD');
    const range = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '');
    const bytes = range ? object.subarray(Number(range[1]), Number(range[2]) + 1) : object;
    response.writeHead(range ? 206 : 200, { 'content-length': bytes.length });
    response.end(request.method === 'HEAD' ? undefined : bytes);
  }

  function remove(response: ServerResponse, body: Buffer): void {
    const keys = [...body.toString().matchAll(/<Key>([^<]*)<\/Key>/g)].map((match) => match[1] as string);
    if (keys.length > 1000) return fail(response, 400, 'MalformedXML');
    const { delete: refusal } = fake.refusals;
    if (refusal) {
      const errors = keys.map((key) => `<Error><Key>${key}</Key><Code>${refusal}</Code></Error>`);
      return xml(response, `<DeleteResult>${errors.join('')}</DeleteResult>`);
    }
    for (const key of keys) objects.delete(key);
    xml(response, '<DeleteResult/>');
  }

  const port = await listenOnFreePort(server);
  return Object.assign(fake, {
    endpoint: `http://127.0.0.1:${port}`,
    close: () => new Promise<void>((resolve) => server.close(() => resolve()).closeAllConnections()),
  });
}

async function readBody(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

function xml(response: ServerResponse, body: string): void {
  response.setHeader('content-type', 'application/xml').end(`<?xml version="1.0" encoding="UTF-8"?>${body}`);
}

function fail(response: ServerResponse, status: number, code: string, silent = false): void {
  response.writeHead(status, { 'content-type': 'application/xml' });
  response.end(silent ? undefined : `<?xml version="1.0" encoding="UTF-8"?><Error><Code>${code}</Code></Error>`);
}
