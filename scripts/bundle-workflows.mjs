// Part of `npm run build`: bundles the workflows in dist/ into the one file that workers load.
import { writeFileSync } from 'node:fs';
import { bundleWorkflows } from '../dist/src/temporal/bundle.js';

const { code } = await bundleWorkflows();
writeFileSync(new URL('../dist/workflow-bundle.js', import.meta.url), code);
