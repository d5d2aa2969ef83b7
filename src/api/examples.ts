import { readFileSync } from 'node:fs';

/** Request and response of a call that the tests made; `scripts/record-examples.mjs` records them. */
interface Example {
  request?: unknown;
  response: unknown;
}

interface Media {
  content?: Record<string, { example?: unknown } | undefined>;
}
interface Operation {
  operationId?: string;
  requestBody?: Media;
  responses?: Record<string, Media | undefined>;
}

/** Adds the recorded request and success response to each operation of an OpenAPI document. */
export function addExamples<Document extends object>(document: Document): Document {
  const examples = JSON.parse(readFileSync(new URL('examples.json', import.meta.url), 'utf8')) as Record<
    string,
    Example
  >;
  const { paths = {} } = document as { paths?: Record<string, Record<string, Operation>> };
  for (const operation of Object.values(paths).flatMap((methods) => Object.values(methods))) {
    const example = examples[operation.operationId ?? ''];
    if (example === undefined) continue;
    const success = operation.responses?.['200'] ?? operation.responses?.['201'];
    addTo(success, example.response);
    if (example.request !== undefined) addTo(operation.requestBody, example.request);
  }
  return document;
}

function addTo(body: Media | undefined, example: unknown): void {
  const media = body?.content?.['application/json'];
  if (media) media.example = example;
}
