import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot } from './project-root.ts';

/** The version of the product, from package.json: `MAJOR.MINOR.PATCH`. */
export const { version: VERSION } = JSON.parse(readFileSync(join(projectRoot(), 'package.json'), 'utf8')) as {
  version: string;
};
