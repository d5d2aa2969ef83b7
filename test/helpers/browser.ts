import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { installPackages } from './mail-packages.ts';

/** Debian's package; nothing else is driven here than a page that is loaded. */
const CHROMIUM = '/usr/bin/chromium';

/**
 * Makes sure that there is a browser, by apt-get where this may be done.
 * @throws Error with one line that says why there is none
 */
export async function ensureBrowser(progress: (line: string) => void = () => {}): Promise<void> {
  if (existsSync(CHROMIUM)) return;
  if (process.getuid?.() !== 0 || !existsSync('/usr/bin/apt-get')) {
    throw new Error('tests with a browser need chromium: please install it');
  }
  progress('installing chromium by apt-get');
  await installPackages(['chromium']);
}

export interface OpenPage {
  close(): Promise<void>;
}

/** Opens a page in a headless browser with a profile of its own in `dir`; `hosts` says which address a name has. */
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
      // what a person may allow: pages of the internet reach this machine
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
