import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { bundleWorkflowCode, type WorkflowBundleOption } from '@temporalio/worker';
import { FAILURE_CONVERTER_PATH } from './data-converter.ts';

/** Where the build puts the bundle: next to `src` in `dist`. The sources have none. */
const BUILT = fileURLToPath(new URL('../../workflow-bundle.js', import.meta.url));

/** The bundle of the workflows: the built one, or, when run from source, one made now (about 2 s). */
export async function workflowBundle(): Promise<WorkflowBundleOption> {
  return existsSync(BUILT) ? { codePath: BUILT } : bundleWorkflows();
}

/** Bundles the workflows of this source tree, as the build does. */
export async function bundleWorkflows(): Promise<{ code: string }> {
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
  const quiet = { log() {}, trace() {}, debug() {}, info() {}, warn() {}, error() {} };
  const pathOf = (name: string) => fileURLToPath(new URL(`../workflows/${name}.${extension}`, import.meta.url));
  const [workflows, interceptors] = [pathOf('index'), pathOf('interceptors')];
  return bundleWorkflowCode({
    workflowsPath: workflows,
    workflowInterceptorModules: [interceptors],
    failureConverterPath: FAILURE_CONVERTER_PATH,
    // loaded once, not for each run: our modules have no state
    preloadModules: [workflows, interceptors, FAILURE_CONVERTER_PATH],
    logger: quiet,
  });
}
