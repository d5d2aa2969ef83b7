import { execFileSync, spawn } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { projectRoot } from '../src/runtime/project-root.ts';
import { Api } from '../test/helpers/product/api.ts';
import { browse, startBrowser } from '../test/helpers/product/browser.ts';
import { freePort } from '../test/helpers/servers/free-port.ts';
import { addUser } from '../test/helpers/product/mail-user.ts';
import { openMailbox } from '../test/helpers/product/mailbox.ts';
import { waitFor } from '../test/helpers/assert/wait.ts';
import type { Bounds, Figures } from './figures.ts';
import type { Bench } from './ground/setup.ts';

const SUBJECT = 'The first mail';

/** Runs `npm start` of a clone until `use` resolves. */
async function started(dir: string, port: number, uiPort: number, use: () => Promise<void>): Promise<void> {
  const product = spawn('npm', ['start'], {
    cwd: join(dir, 'clone'),
    env: { ...process.env, DATA_DIR: join(dir, 'data'), PORT: String(port), TEMPORAL_UI_PORT: String(uiPort) },
    stdio: 'ignore',
    detached: true,
  });
  const ended = new Promise<void>((resolve) => product.once('exit', () => resolve()));
  try {
    await use();
  } finally {
    // the process group of npm and its children
    if (product.pid !== undefined) process.kill(-product.pid, 'SIGTERM');
    await ended;
  }
}

/**
 * From `git clone` until the dashboard shows the first mail: clone, install, build, start, sign in, connect, mail. Packages
 * and Temporal in the caches of this user are not downloaded again.
 */
export const firstMail = {
  title: 'From git clone to the first mail in the dashboard; packages and Temporal cached',
  bounds: { 'first mail seen, s': { most: 60 } } satisfies Bounds,
  rounds: 1,
  prepare: (): Promise<null> => Promise.resolve(null),
  async round(_bench: Bench): Promise<Figures> {
    const dir = await mkdtemp(join(tmpdir(), 'first-mail-'));
    const user = await addUser();
    const box = await openMailbox(user);
    const browser = await startBrowser();
    const [port, uiPort] = [await freePort(), await freePort()];
    const base = `http://127.0.0.1:${port}`;
    const began = performance.now();
    const seconds = () => (performance.now() - began) / 1000;
    const figures: Figures = {};
    try {
      execFileSync('git', ['clone', '-q', projectRoot(), join(dir, 'clone')]);
      figures['cloned, s'] = seconds();
      await started(dir, port, uiPort, async () => {
        const isReady = () =>
          fetch(`${base}/ready`).then(
            (response) => response.ok,
            () => false,
          );
        await waitFor(isReady, { timeoutMs: 20 * 60_000, everyMs: 200, what: 'the clone to be ready' });
        figures['ready, s'] = seconds();
        const key = (await readFile(join(dir, 'data', 'bootstrap-api-key'), 'utf8')).trim();
        const api = new Api(base, key);
        // the first worker may accept work a moment later
        const { id } = await waitFor(
          () =>
            api.connect(user).catch((error: unknown) => {
              if ((error as { status?: number }).status !== 503) throw error;
              return undefined;
            }),
          { timeoutMs: 5 * 60_000, everyMs: 200, what: 'a worker to connect the mailbox' },
        );
        figures['mailbox connected, s'] = seconds();
        const desk = await browse(browser, base);
        await desk.open(`/mailboxes/${id}`);
        await desk.fill('API key', key);
        await desk.click('Sign in', 'button');
        await box.append('INBOX', { subject: SUBJECT, to: user.user, text: 'Good morning' });
        await desk.sees(SUBJECT);
        figures['first mail seen, s'] = seconds();
      });
    } finally {
      await browser.close();
      await box.close();
      await rm(dir, { recursive: true, force: true, maxRetries: 5 });
    }
    return figures;
  },
};
