import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { CHROMIUM } from '../servers/browser-package.ts';

export interface OpenPage {
  close(): Promise<void>;
}

/** Opens a page in a headless browser with a separate profile in `dir`; `hosts` maps names to addresses. */
export function openPage(url: string, dir: string, hosts: Readonly<Record<string, string>>): OpenPage {
  const rules = Object.entries(hosts).map(([name, address]) => `MAP ${name} ${address}`);
  const child: ChildProcess = spawn(
    CHROMIUM,
    [
      ...['--headless=new', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run', '--disable-extensions'],
      // the sandbox cannot be set up by root
      ...(process.getuid?.() === 0 ? ['--no-sandbox'] : []),
      `--user-data-dir=${dir}`,
      `--host-resolver-rules=${rules.join(', ')}`,
      // a permission that a user may grant: pages of the internet reach this machine
      '--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests',
      url,
    ],
    { stdio: 'ignore', detached: true, env: { PATH: process.env['PATH'], HOME: dir } },
  );
  return {
    close: async () => {
      if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return;
      const gone = once(child, 'exit');
      // its group: the browser's own processes
      process.kill(-child.pid, 'SIGKILL');
      await gone;
    },
  };
}
