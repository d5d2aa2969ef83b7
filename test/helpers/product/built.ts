import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { WorkflowBundleOption } from '@temporalio/worker';
import { projectRoot } from '../../../src/runtime/project-root.ts';

/** The output of `npm run build`. `npm test` builds before it starts tests that import this. */

/** The program of a process of the product. */
export function builtEntry(name: 'backup' | 'restore' | 'server' | 'start' | 'worker'): string {
  return join(projectRoot(), 'dist', `${name}.js`);
}

/** The URL of a module of `src`, by its path there without an extension. */
export function builtModule(path: string): string {
  return pathToFileURL(join(projectRoot(), 'dist', 'src', `${path}.js`)).href;
}

/** The workflows as workers load them. */
export const BUILT_WORKFLOWS: WorkflowBundleOption = { codePath: join(projectRoot(), 'dist', 'workflow-bundle.js') };
