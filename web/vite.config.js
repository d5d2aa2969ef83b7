import { join } from 'node:path';

/** Builds three pages, the dashboard, the connect page and the reference, which src/api/pages.ts serves. */
export default {
  // relative: `<base>` of the page sets the path under which the API is served
  base: './',
  root: import.meta.dirname,
  // the page may only load scripts from files of its origin
  build: {
    outDir: join(import.meta.dirname, '..', 'dist', 'web'),
    emptyOutDir: true,
    target: 'es2022',
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    rollupOptions: {
      input: ['index.html', 'connect.html', 'reference.html'].map((name) => join(import.meta.dirname, name)),
    },
  },
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  logLevel: 'warn',
  // `npm run dev` in this folder, next to an API
  server: {
    proxy: {
      '/api': 'http://127.0.0.1:3000',
      '/health': 'http://127.0.0.1:3000',
      '/openapi.json': 'http://127.0.0.1:3000',
      '^/connect/.*/': 'http://127.0.0.1:3000',
    },
  },
};
