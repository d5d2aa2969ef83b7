import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { newId } from '../../src/new-id.ts';
import { type ApiUnderTest, apiUnderTest } from '../helpers/product/api-under-test.ts';
import { expectDocumented } from '../helpers/assert/documented.ts';

/** The examples of the reference are recorded responses; they match the current schemas. */

interface Operation {
  operationId: string;
  responses: Record<string, { content?: Record<string, { example?: unknown }> }>;
}
interface Shown {
  id: string;
  method: string;
  path: string;
  status: number;
  example: unknown;
}

let api: ApiUnderTest;
let shown: Shown[];
beforeAll(async () => {
  api = await apiUnderTest();
  const { paths } = api.app.swagger() as unknown as { paths: Record<string, Record<string, Operation>> };
  shown = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).flatMap(([method, { operationId, responses }]) =>
      [200, 201].flatMap((status) => {
        const media = responses[status]?.content?.['application/json'];
        return media ? [{ id: operationId, method, path, status, example: media.example }] : [];
      }),
    ),
  );
});
afterAll(() => api.close());

it('every operation that returns JSON has an example', () => {
  expect(shown.length).toBeGreaterThan(50);
  expect(shown.filter(({ example }) => example === undefined).map(({ id }) => id)).toEqual([]);
});

it('each matches its schema', () => {
  const document = api.app.swagger();
  for (const { method, path, status, example } of shown) {
    const url = path.replace(/\{[^}]+\}/g, newId('account'));
    expectDocumented(document, method, url, status, JSON.stringify(example));
  }
});

it('none contains a key or a secret', () => {
  expect(JSON.stringify(shown)).not.toMatch(/mbx_[0-9a-f]{20}|whsec_[A-Za-z0-9+/]{20}|\/invitation#[\w-]{20}/);
});
