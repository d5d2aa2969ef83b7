import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import fastify, { type FastifyInstance } from 'fastify';
import { serveDraining } from '../../../src/api/http/draining.ts';
import { handleErrors } from '../../../src/api/http/error-handler.ts';
import { waitFor } from '../../helpers/assert/wait.ts';

let app: FastifyInstance;
let url: string;
let begun: number;
let finish: () => void;

beforeEach(async () => {
  begun = 0;
  const finished = new Promise<void>((resolve) => (finish = resolve));
  app = fastify({ forceCloseConnections: 'idle' });
  handleErrors(app, { bodyBytes: 1024 });
  serveDraining(app);
  app.get('/slow', async () => {
    begun += 1;
    await finished;
    return { done: true };
  });
  url = `${await app.listen({ host: '127.0.0.1', port: 0 })}/slow`;
});
afterEach(async () => {
  finish();
  await app.close();
});

describe('a process that is about to stop', () => {
  it('finishes the requests under way, and answers new ones', async () => {
    const underWay = fetch(url);
    await waitFor(() => begun === 1);
    const drained = app.drain(10_000);
    const refused = await fetch(url);
    expect([refused.status, refused.headers.get('retry-after'), refused.headers.get('connection')]).toEqual([
      503,
      '5',
      'close',
    ]);
    expect(await refused.json()).toMatchObject({ detail: 'this API process is stopping: nothing was done' });
    finish();
    expect(await (await underWay).json()).toEqual({ done: true });
    await drained;
  });

  it('answers the requests that do not end in time', async () => {
    const underWay = fetch(url);
    await waitFor(() => begun === 1);
    await app.drain(100);
    const answer = await underWay;
    expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '5']);
    expect(await answer.json()).toMatchObject({ detail: 'this API process is stopping: it may still be done' });
  });
});
