import { setTimeout as sleep } from 'node:timers/promises';
import { changeNextOf } from '../../src/activities/change-emails.ts';
import { ApiError } from '../../src/contract/errors.ts';
import type { SendResult } from '../../src/db/schema/index.ts';
import { LeaseLost } from '../../src/db/coordination/lease.ts';
import { createBatch } from '../../src/db/queries/batches.ts';
import { changeFlags, markEmail } from '../../src/mailbox/changes/mark.ts';
import { moveEmail } from '../../src/mailbox/changes/move.ts';
import type { SyncContext } from '../../src/mailbox/context.ts';
import { ensureRoleFolder } from '../../src/mailbox/folders/by-role.ts';
import { changeFolder, createFolder } from '../../src/mailbox/folders/change.ts';
import { deleteFolder } from '../../src/mailbox/folders/delete.ts';
import { type FolderState, loadFolders } from '../../src/mailbox/store/folders.ts';
import { completeBatch, failBatch } from '../../src/mailbox/store/batches.ts';
import { loadSyncSettings, type SyncSettings } from '../../src/mailbox/settings.ts';
import { type MailboxDeps, withMailbox } from '../../src/mailbox/with-mailbox.ts';
import { MailError } from '../../src/mail-wire/mail-error.ts';
import { newId } from '../../src/new-id.ts';
import {
  giveUpDraft,
  isReserved,
  findDraft,
  markDraftDeleted,
  recordDraft,
  reserveDraft,
} from '../../src/outgoing/draft-state.ts';
import { MayBeAppended, removeDraftEmail, saveDraft } from '../../src/sending/drafts.ts';
import { fileSentCopy } from '../../src/sending/file-sent-copy.ts';
import { inputKeyOf, storeInput } from '../../src/outgoing/outgoing-input.ts';
import { loadSend, markSent, markSubmitting, recordSend, type SendRow } from '../../src/outgoing/send-state.ts';
import { mailText } from '../helpers/product/mail-text.ts';
import type { Random } from './random.ts';

/** A call of the API, as its activities run it; `run` may be done again. */
export interface ApiCall {
  name: string;
  run(): Promise<void>;
  /** what the workflow does when it is given up */
  giveUp?(): Promise<void>;
}

const WEIGHTS = {
  read: 10,
  flag: 10,
  move: 14,
  trash: 5,
  batch: 5,
  createFolder: 3,
  renameFolder: 3,
  deleteFolder: 2,
  createDraft: 4,
  updateDraft: 4,
  deleteDraft: 2,
  sentCopy: 3,
};
export type ApiOperation = keyof typeof WEIGHTS;

const ATTEMPTS = 5;

/** Random calls of the API about one account. */
export class ApiCalls {
  private readonly deps: MailboxDeps;
  private readonly accountId: string;
  private readonly random: Random;
  private made = 0;

  constructor(deps: MailboxDeps, accountId: string, random: Random) {
    this.deps = deps;
    this.accountId = accountId;
    this.random = random;
  }

  /** The next call; undefined where what was chosen cannot be called. */
  next(): Promise<ApiCall | undefined> {
    return this.of(this.random.weighted(WEIGHTS));
  }

  /** A call of this kind, about what the account has now; undefined where there is nothing to call it with. */
  async of(kind: ApiOperation): Promise<ApiCall | undefined> {
    return this[kind]();
  }

  private call(name: string, work: (ctx: SyncContext) => Promise<void>): ApiCall {
    return { name, run: () => withMailbox(this.deps, this.accountId, work) };
  }

  private async ids(table: 'emails' | 'drafts'): Promise<string[]> {
    const where = table === 'drafts' ? `and state = 'active'` : '';
    const { rows } = await this.deps.db.execute<{ id: string }>(
      `select id from ${table} where account_id = '${this.accountId}' ${where} order by id`,
    );
    return rows.map(({ id }) => id);
  }

  private folders(): Promise<FolderState[]> {
    return loadFolders(this.deps.db, this.accountId);
  }

  private async read(): Promise<ApiCall | undefined> {
    const id = this.random.pick(await this.ids('emails'));
    const seen = this.random.chance(0.5);
    return id === undefined ? undefined : this.call(`read ${seen} ${id}`, (ctx) => markEmail(ctx, id, seen));
  }

  private async flag(): Promise<ApiCall | undefined> {
    const id = this.random.pick(await this.ids('emails'));
    const names = ['\\Flagged', 'Work', 'later'].filter(() => this.random.chance(0.5));
    const change = this.random.chance(0.5) ? { add: names, remove: [] } : { add: [], remove: names };
    if (id === undefined || names.length === 0) return undefined;
    return this.call(`flag ${JSON.stringify(change)} ${id}`, (ctx) => changeFlags(ctx, id, change));
  }

  private async move(): Promise<ApiCall | undefined> {
    const id = this.random.pick(await this.ids('emails'));
    const target = this.random.pick((await this.folders()).filter((each) => each.selectable && each.role !== 'ALL'));
    if (id === undefined || !target) return undefined;
    const find = async () => {
      const found = (await this.folders()).find((folder) => folder.id === target.id && folder.selectable);
      if (!found) throw new ApiError('not_found', 'no folder has this id');
      return found;
    };
    return this.call(`move ${id} ${target.path}`, (ctx) => moveEmail(ctx, id, find));
  }

  private async trash(): Promise<ApiCall | undefined> {
    const id = this.random.pick(await this.ids('emails'));
    if (id === undefined) return undefined;
    return this.call(`trash ${id}`, (ctx) => moveEmail(ctx, id, () => ensureRoleFolder(ctx, 'TRASH')));
  }

  private async batch(): Promise<ApiCall | undefined> {
    const { db } = this.deps;
    const { accountId } = this;
    const emailIds = (await this.ids('emails')).filter(() => this.random.chance(0.3));
    const folder = this.random.pick((await this.folders()).filter((each) => each.selectable && each.role !== 'ALL'));
    const change = this.random.pick([
      { flags: { add: ['\\Flagged'], remove: ['later'] } },
      { flags: { add: ['later'], remove: ['\\Seen'] } },
      { flags: { add: ['\\Seen'], remove: [] }, folderId: folder?.id ?? '' },
      { trash: true },
    ]);
    if (emailIds.length === 0 || !change) return undefined;
    const batchId = newId('batch');
    await createBatch(db, { id: batchId, accountId, change, emailIds });
    return {
      name: `batch ${JSON.stringify(change)} ${emailIds.join(' ')}`,
      run: async () => {
        while (await changeNextOf(this.deps, { accountId, batchId, oneByOne: false, isOver: () => false }));
        await completeBatch(db, batchId);
      },
      giveUp: async () => void (await failBatch(db, batchId, { code: 'provider_error', detail: 'given up' })),
    };
  }

  private async ownFolder(): Promise<FolderState | undefined> {
    return this.random.pick(
      (await this.folders()).filter(({ role, path }) => role === 'UNKNOWN' && path !== '[Gmail]'),
    );
  }

  private async createFolder(): Promise<ApiCall | undefined> {
    if ((await this.folders()).length > 12) return undefined;
    const parent = this.random.chance(0.3) ? await this.ownFolder() : undefined;
    const wanted = { name: `f${this.random.below(12)}`, parentId: parent?.id ?? null };
    const id = newId('folder');
    return this.call(`createFolder ${wanted.name}`, (ctx) => createFolder(ctx, id, wanted));
  }

  private async renameFolder(): Promise<ApiCall | undefined> {
    const folder = await this.ownFolder();
    const name = `f${this.random.below(12)}`;
    return folder && this.call(`renameFolder ${folder.path} ${name}`, (ctx) => changeFolder(ctx, folder.id, { name }));
  }

  private async deleteFolder(): Promise<ApiCall | undefined> {
    const folder = await this.ownFolder();
    return folder && this.call(`deleteFolder ${folder.path}`, (ctx) => deleteFolder(ctx, folder.id));
  }

  private async input(id: string): Promise<string> {
    const key = inputKeyOf(this.accountId, id);
    const input = { subject: `d${++this.made}`, body: '<p>a draft</p>' };
    await storeInput(this.deps.storage, key, { input });
    return key;
  }

  private async createDraft(): Promise<ApiCall> {
    const { db } = this.deps;
    const id = newId('draft');
    const inputKey = await this.input(id);
    const { accountId } = this;
    await recordDraft(db, { id, accountId, inputKey, metadata: null, tracking: null, trackingId: null });
    return {
      name: `createDraft ${id}`,
      run: () => saveDraft(this.deps, { accountId, draftId: id, previousId: null }),
      giveUp: () => giveUpDraft(db, id),
    };
  }

  private async updateDraft(): Promise<ApiCall | undefined> {
    const { db } = this.deps;
    const { accountId } = this;
    const previousId = this.random.pick(await this.ids('drafts'));
    if (previousId === undefined || !(await findDraft(db, accountId, previousId))) return undefined;
    const id = newId('draft');
    const inputKey = await this.input(id);
    const isReservedNow = await db.transaction(async (tx) => {
      if ((await reserveDraft(tx, previousId, id)) !== id) return false;
      await recordDraft(tx, { id, accountId, inputKey, metadata: null, tracking: null, trackingId: null });
      return true;
    });
    if (!isReservedNow) return undefined;
    return {
      name: `updateDraft ${previousId} ${id}`,
      run: async () => {
        await saveDraft(this.deps, { accountId, draftId: id, previousId });
        await withMailbox(this.deps, accountId, (ctx) => removeDraftEmail(ctx, previousId));
      },
      giveUp: () => giveUpDraft(db, id),
    };
  }

  private async deleteDraft(): Promise<ApiCall | undefined> {
    const { db } = this.deps;
    const id = this.random.pick(await this.ids('drafts'));
    if (id === undefined || (await isReserved(db, { id }))) return undefined;
    return this.call(`deleteDraft ${id}`, async (ctx) => {
      await removeDraftEmail(ctx, id);
      await markDraftDeleted(db, id);
    });
  }

  /** What is left of a send once the SMTP server has accepted it: its copy is filed in Sent. */
  private async sentCopy(): Promise<ApiCall> {
    const { db, storage } = this.deps;
    const { accountId } = this;
    const id = newId('email');
    const key = { apiKeyId: newId('apiKey'), apiKeyName: 'chaos', metadata: null };
    await recordSend(db, { id, accountId, ...key, draftId: null, trackingId: null, tracking: null, inputKey: null });
    const storageKey = `${accountId}/sent/${id}.eml`;
    const messageId = `<${id}@chaos.test>`;
    await storage.put(storageKey, mailText({ subject: `sent${++this.made}`, messageId }));
    const result: SendResult = { rejected: [] };
    await markSubmitting(db, id, { messageId, storageKey, result });
    await markSent(db, id, result);
    let search = false;
    return {
      name: `sentCopy ${id}`,
      run: async () => {
        const send = (await loadSend(db, accountId, id)) as SendRow;
        const settings = (await loadSyncSettings(db, accountId)) as SyncSettings;
        const filing = { appendAnyway: true, search };
        search = true;
        await fileSentCopy(this.deps, { send, settings }, filing);
      },
    };
  }

  /** Runs a call as a workflow does: a failure that is not final is followed by another attempt. Says how it ended. */
  async run(call: ApiCall): Promise<string> {
    for (let attempt = 1; ; attempt++) {
      try {
        await call.run();
        return 'done';
      } catch (error) {
        if (!isExpected(error)) throw error;
        if (attempt < ATTEMPTS && !(error instanceof ApiError)) {
          await sleep(20 * attempt);
          continue;
        }
        await call.giveUp?.();
        return String(error);
      }
    }
  }
}

/** Whether code that meets a mailbox that changes, or that is killed, may end with this. */
export function isExpected(error: unknown): boolean {
  const expected = [MailError, ApiError, LeaseLost, MayBeAppended];
  return expected.some((type) => error instanceof type);
}
