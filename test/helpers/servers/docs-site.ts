import { join } from 'node:path';
import { projectRoot } from '../../../src/runtime/project-root.ts';

/** The output of `npm run docs`. `npm test` builds it before it starts tests that import this. */
export const SITE = join(projectRoot(), 'dist', 'docs');
