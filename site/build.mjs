// node site/build.mjs OUT: makes the site of docs/ in the folder OUT.
import { fileURLToPath } from 'node:url';
import { build } from 'vitepress';
import { copyPages } from './pages.mjs';

copyPages();
await build(fileURLToPath(new URL('.', import.meta.url)), { outDir: process.argv[2] });
