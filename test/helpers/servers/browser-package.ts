import { existsSync } from 'node:fs';
import { install } from './mail-packages.ts';

/** Debian's browser. */
export const CHROMIUM = '/usr/bin/chromium';

/** Installs a browser by apt-get if permitted. Returns the reason in one line when it is missing. */
export async function ensureBrowser(progress: (line: string) => void): Promise<string | undefined> {
  if (existsSync(CHROMIUM)) return undefined;
  if (process.getuid?.() !== 0 || !existsSync('/usr/bin/apt-get')) {
    return 'tests in a browser need chromium: please install it';
  }
  progress('installing chromium by apt-get');
  try {
    await install(['chromium']);
    return undefined;
  } catch (error) {
    const reason = String((error as { stderr?: string }).stderr ?? error)
      .trim()
      .split('\n')
      .at(-1);
    return `apt-get could not install chromium: ${reason ?? ''}`;
  }
}
