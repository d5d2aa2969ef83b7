import { existsSync } from 'node:fs';
import { installPackages } from './mail-packages.ts';

const PROMTOOL = '/usr/bin/promtool';

/** The path of Prometheus' promtool, which is installed by apt-get if permitted. @throws Error when it is missing */
export async function promtool(): Promise<string> {
  if (existsSync(PROMTOOL)) return PROMTOOL;
  if (process.getuid?.() !== 0 || !existsSync('/usr/bin/apt-get')) {
    throw new Error('tests of alerts need promtool: please install prometheus');
  }
  await installPackages(['prometheus']);
  return PROMTOOL;
}
