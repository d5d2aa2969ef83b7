import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { withFailures } from '../../src/activities/failures.ts';
import { workflowErrorToApiError } from '../../src/api/commands/run-errors.ts';
import { execute } from '../../src/api/commands/run-workflow.ts';
import { MailError } from '../../src/mail-wire/mail-error.ts';
import { newId } from '../../src/new-id.ts';
import {
  changeWorkflowId,
  deleteDraftWorkflowId,
  draftWorkflowId,
  finishSendWorkflowId,
  QUEUES,
  removeDraftWorkflowId,
  sendWorkflowId,
  WORKFLOWS,
} from '../../src/workflows/names.ts';
import { startTestWorkers, type TestWorkers } from '../helpers/product/temporal-workers.ts';
import { waitFor } from '../helpers/assert/wait.ts';

/** Sends and drafts as runs: their steps in order, and the response to the caller. */

const accountId = newId('account');
const NAMES = [
  ...(['submitEmail', 'giveUpSend', 'forwardedBy', 'fileSentCopy', 'giveUpFiling', 'removeSentDraft'] as const),
  'updateEmail',
] as const;
const DRAFTS = ['appendDraft', 'giveUpDraft', 'removeSuperseded', 'deleteDraftMail'] as const;

let workers: TestWorkers;
let asked: string[] = [];
let act: Partial<Record<string, (tries: number) => unknown>> = {};

beforeAll(async () => {
  const activities = [...NAMES, ...DRAFTS].map((name) => [
    name,
    async () => {
      asked.push(name);
      const usual = name === 'forwardedBy' ? null : { finished: true };
      return (await act[name]?.(asked.filter((one) => one === name).length)) ?? usual;
    },
  ]);
  workers = await startTestWorkers(
    withFailures(Object.fromEntries(activities) as Record<string, () => Promise<unknown>>),
  );
}, 60_000);
afterAll(() => workers.stop());

beforeEach(() => {
  asked = [];
  act = {};
});

const run = (type: string, workflowId: string, args: object): Promise<void> => {
  const what = { type, workflowId, accountId, args: [args], summary: type, deadlineMs: 20_000 };
  return execute({ client: workers.api, hasWorker: () => Promise.resolve(true) }, what);
};
const send = (sendId = newId('email')) => run(WORKFLOWS.sendEmail, sendWorkflowId(sendId), { accountId, sendId });
const save = (previousId: string | null, draftId = newId('draft')) =>
  run(WORKFLOWS.saveDraft, draftWorkflowId(draftId), { accountId, draftId, previousId });
const ended = (workflowId: string) =>
  waitFor(async () => {
    const { status } = await workers.client.workflow.getHandle(workflowId).describe();
    return status.name === 'COMPLETED';
  });

describe('a send', () => {
  it('is one step when all goes well, and is not made twice', async () => {
    const id = newId('email');
    await Promise.all([send(id), send(id)]);
    await send(id);
    expect(asked).toEqual(['submitEmail']);
  });

  it('whose copy is not filed yet is reported, and finished by a separate run', async () => {
    const id = newId('email');
    act = {
      submitEmail: () => ({ finished: false }),
      fileSentCopy: (tries) => {
        if (tries === 1) return 'waiting';
        if (tries < 5) throw new MailError('provider_error', 'imap', 'away');
        return 'done';
      },
      removeSentDraft: () => 'done',
    };
    await send(id);
    await ended(finishSendWorkflowId(id));
    expect(asked.filter((name) => name === 'fileSentCopy')).toHaveLength(5);
    expect(asked.filter((name) => name === 'removeSentDraft')).toHaveLength(1);
  });

  it.each([
    [new MailError('provider_rejected', 'smtp', 'too large'), 'provider_rejected'],
    [new MailError('invalid_credentials', 'smtp', 'no'), 'invalid_credentials'],
    [new MailError('provider_error', 'smtp', 'away'), 'provider_error'],
  ])('that fails with %s is reported immediately, and can be repeated under its id', async (error, code) => {
    const id = newId('email');
    act = {
      submitEmail: () => {
        throw error;
      },
      giveUpSend: () => 'failed',
    };
    const failure: unknown = await send(id).catch((reason: unknown) => reason);
    expect(workflowErrorToApiError(failure, 'late')).toMatchObject({ code });
    expect(asked).toEqual(['submitEmail', 'giveUpSend']);
    act = {};
    await send(id);
    expect(asked.at(-1)).toBe('submitEmail');
  });

  it.each([
    ['that forwards an email marks it, and does not wait for that', () => undefined, 'COMPLETED'],
    [
      'of a mailbox without keywords succeeds all the same',
      () => {
        throw new MailError('provider_rejected', 'imap', 'no keywords');
      },
      'FAILED',
    ],
  ])('%s', async (_name, updateEmail, status) => {
    const [id, forwardedId] = [newId('email'), newId('email')];
    act = { submitEmail: () => ({ finished: true, forwardedId }), updateEmail };
    await send(id);
    const change = workers.client.workflow.getHandle(changeWorkflowId(forwardedId, id));
    await waitFor(async () => (await change.describe()).status.name === status);
    expect(asked).toEqual(['submitEmail', 'updateEmail']);
  });

  it('that was made although its run failed is finished', async () => {
    const id = newId('email');
    act = {
      submitEmail: () => {
        throw new MailError('provider_error', 'imap', 'away');
      },
      giveUpSend: () => 'sent',
      fileSentCopy: () => 'done',
      removeSentDraft: () => 'done',
    };
    await send(id);
    await ended(finishSendWorkflowId(id));
  });

  it('that was made although its run failed marks the email that it forwards', async () => {
    const [id, forwardedId] = [newId('email'), newId('email')];
    act = {
      submitEmail: () => {
        throw new MailError('provider_error', 'imap', 'away');
      },
      giveUpSend: () => 'sent',
      forwardedBy: () => forwardedId,
      fileSentCopy: () => 'done',
      removeSentDraft: () => 'done',
      updateEmail: () => undefined,
    };
    await send(id);
    await ended(finishSendWorkflowId(id));
    await ended(changeWorkflowId(forwardedId, id));
    expect(asked).toContain('updateEmail');
  });
});

describe('the copy of a send', () => {
  const finish = (sendId: string) =>
    workers.client.workflow.execute(WORKFLOWS.finishSend, {
      workflowId: finishSendWorkflowId(sendId),
      taskQueue: QUEUES.sends,
      args: [{ accountId, sendId, pace: 1e-7, maxFailures: 4 }],
    });

  it.each([
    ['whose login is refused', () => Promise.reject(new MailError('invalid_credentials', 'imap', 'no'))],
    ['that is disconnected', () => 'disconnected'],
  ])('waits for an account %s, and is not given up', async (_what, outcome) => {
    const waits = (tries: number) => (tries > 6 ? 'done' : outcome());
    act = { fileSentCopy: waits, removeSentDraft: waits };
    await finish(newId('email'));
    expect(asked.filter((name) => name === 'fileSentCopy')).toHaveLength(7);
    expect(asked.filter((name) => name === 'removeSentDraft')).toHaveLength(7);
    expect(asked).not.toContain('giveUpFiling');
  });

  it('that the mailbox takes at no attempt is given up: nothing stands for it then', async () => {
    act = {
      fileSentCopy: () => {
        throw new MailError('provider_rejected', 'imap', 'over quota');
      },
      removeSentDraft: () => 'done',
    };
    await expect(finish(newId('email'))).rejects.toThrow();
    expect(asked.filter((name) => name === 'fileSentCopy')).toHaveLength(4);
    expect(asked.at(-1)).toBe('giveUpFiling');
  });

  it('is not given up when only its draft cannot be removed', async () => {
    act = {
      fileSentCopy: () => 'done',
      removeSentDraft: () => {
        throw new MailError('provider_rejected', 'imap', 'no');
      },
    };
    await expect(finish(newId('email'))).rejects.toThrow();
    expect(asked).not.toContain('giveUpFiling');
  });
});

describe('a draft', () => {
  it('is appended before the draft that it replaces is removed', async () => {
    await save(null);
    await save(newId('draft'));
    expect(asked).toEqual(['appendDraft', 'appendDraft', 'removeSuperseded']);
  });

  it('that is deleted is removed from the mailbox', async () => {
    const draftId = newId('draft');
    await run(WORKFLOWS.deleteDraft, deleteDraftWorkflowId(draftId), { accountId, draftId });
    expect(asked).toEqual(['deleteDraftMail']);
  });

  it('that is refused is given up, and the other stays', async () => {
    act = {
      appendDraft: () => {
        throw new MailError('provider_rejected', 'imap', 'over quota');
      },
    };
    const failure: unknown = await save(newId('draft')).catch((reason: unknown) => reason);
    expect(workflowErrorToApiError(failure, 'late')).toMatchObject({ code: 'provider_rejected' });
    expect(asked).toEqual(['appendDraft', 'giveUpDraft']);
  });

  it('is saved although the replaced draft cannot be removed, which is done later', async () => {
    const previous = newId('draft');
    act = {
      removeSuperseded: () => {
        throw new MailError('provider_error', 'imap', 'away');
      },
    };
    await save(previous);
    await ended(removeDraftWorkflowId(previous));
    expect(asked.at(-1)).toBe('deleteDraftMail');
  });
});
