import { join } from 'node:path';

/** Two pages: the dashboard, and the one where the owner of a mailbox connects it. Served by src/api/pages.ts. */
export default {
  // relative: `<base>` of the page names the path under which the API is served
  base: './',
  root: import.meta.dirname,
  // no script in the page but files of this origin
  build: {
    outDir: join(import.meta.dirname, '..', 'dist', 'web'),
    emptyOutDir: true,
    target: 'es2022',
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    rollupOptions: { input: ['index.html', 'connect.html'].map((name) => join(import.meta.dirname, name)) },
  },
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  logLevel: 'warn',
  // `npm run dev` in this folder, next to an API
  server: { proxy: { '/api': 'http://127.0.0.1:3000', '^/connect/.*/': 'http://127.0.0.1:3000' } },
};
