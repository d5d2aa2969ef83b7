import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { ERRORS } from '../../../src/contract/errors.ts';
import { EVENT_TYPES } from '../../../src/contract/events.ts';
import { type Documentation, operationsOf, textsOf, undescribed } from '../../helpers/assert/openapi.ts';
import { type ApiUnderTest, apiUnderTest } from '../../helpers/product/api-under-test.ts';

const IMPERATIVES =
  /^(Cancel|Connect|Continue|Count|Create|Delete|Download|Find|Get|Import|Invite|List|Mark|Move|Pause|Remove|Rename|Render|Reparse|Replace|Replay|Retry|Revoke|Send|Sign|Stream|Sync|Trash|Update|Verify) /;

/** Phrases that a native writer would not use; texts of the API avoid them. */
const BANNED =
  /\b(any ?more|meanwhile|nobody|somebody|whoever|whatever|goes on|go on|by (itself|themselves)|there (is|are) no(ne)?|taken for|so that|at once|of its own|is no \w+ (of|that)|anew|the same of|left out|looked up again)\b/i;

let api: ApiUnderTest;
let document: Documentation;
beforeAll(async () => {
  api = await apiUnderTest();
  document = (await api.app.inject({ url: '/openapi.json' })).json();
});
afterAll(() => api.close());

/** Whether a text consists of whole sentences: each begins with a capital or code, and the last one ends. */
function isProse(text: string | undefined): boolean {
  return text !== undefined && text.endsWith('.') && text.split(/(?<=\w[.])\s+/).every((one) => /^[A-Z`0-9]/.test(one));
}

describe('the texts of the OpenAPI document', () => {
  it('summarise every operation in the imperative, in at most 60 characters without a period', () => {
    const poor = operationsOf(document).filter(({ summary = '' }) => !isSummary(summary));
    expect(poor.map(({ operationId, summary }) => [operationId, summary])).toEqual([]);
  });

  it('describe every operation in whole sentences', () => {
    const poor = operationsOf(document).filter(({ description }) => !isProse(description));
    expect(poor.map(({ operationId, description }) => [operationId, description])).toEqual([]);
  });

  it('describe every parameter', () => {
    const operations = [...operationsOf(document), ...operationsOf({ paths: document.webhooks })];
    const poor = operations.flatMap(({ operationId, parameters = [] }) =>
      parameters.filter(({ description }) => !description).map(({ name }) => `${operationId} ${name}`),
    );
    expect(poor).toEqual([]);
  });

  it('describe every property and every named schema', () => {
    expect(undescribed(document)).toEqual([]);
    const poor = Object.entries(document.components.schemas).filter(([, { description }]) => !description);
    expect(poor.map(([name]) => name)).toEqual([]);
  });

  it('name the type of an event in one component', () => {
    const lists = JSON.stringify(document).split(JSON.stringify({ enum: EVENT_TYPES }).slice(1, -1));
    expect(lists).toHaveLength(2);
  });

  it('use none of the banned phrases', () => {
    expect(textsOf(document).filter(([, text]) => BANNED.test(text))).toEqual([]);
  });

  it('name every error', () => {
    const codes = new Set(
      [...JSON.stringify(document).matchAll(/`errors\/([a-z_]+)`/g)].map((match) => match[1] ?? ''),
    );
    expect([...codes].sort()).toEqual(Object.keys(ERRORS).sort());
  });

  it('would fail on poor texts', () => {
    expect([isSummary('How everything is doing'), isSummary('Get a draft.')]).toEqual([false, false]);
    expect([isProse('Not whole'), isProse(undefined), isProse('One. two.')]).toEqual([false, false, false]);
    expect(BANNED.test('It is not stored any more.')).toBe(true);
    const schemas = {
      A: {
        properties: {
          count: { type: 'integer' },
          at: { anyOf: [{ type: 'null' }] },
          b: { $ref: '#/components/schemas/B' },
        },
      },
      B: { properties: { c: { type: 'object', description: 'c', properties: { d: {} } } } },
    };
    expect(undescribed({ components: { schemas }, paths: {}, webhooks: {} })).toEqual([
      '/A.count',
      '/A.at',
      '/A.b',
      '/B.c.d',
    ]);
  });
});

const isSummary = (text: string) => IMPERATIVES.test(text) && text.length <= 60 && !text.endsWith('.');
