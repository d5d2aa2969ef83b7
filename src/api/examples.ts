import { readFileSync } from 'node:fs';

/** What a call that the tests made sent and got; `scripts/record-examples.mjs` writes the file. */
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

/** Adds to each operation of an OpenAPI document the example of its request and of its success. */
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

function addTo(place: Media | undefined, example: unknown): void {
  const media = place?.content?.['application/json'];
  if (media) media.example = example;
}
