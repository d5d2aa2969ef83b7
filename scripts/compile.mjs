// Part of `npm run build`: compiles the sources to JavaScript in dist/. Types become blanks, so lines and columns do not
// change, and stack traces need no source maps, which take 10 to 30 MiB of each process.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import blankSpace from 'ts-blank-space';
import ts from 'typescript';
import { filesIn } from './build.mjs';
import { root } from './install.mjs';

const entries = readdirSync(root).filter((name) => name.endsWith('.ts') && !name.endsWith('.config.ts'));
const sources = filesIn('src').filter((path) => path.endsWith('.ts') && !path.endsWith('.d.ts'));

for (const file of [...entries, ...sources]) {
  const source = readFileSync(join(root, file), 'utf8');
  const target = join(root, 'dist', file.replace(/\.ts$/, '.js'));
  mkdirSync(dirname(target), { recursive: true });
  writeFileSync(target, importingBuilt(blankSpace(source, (node) => refuse(file, source, node))));
}

/** `'./name.ts'` in imports becomes `'./name.js'`. */
function importingBuilt(code) {
  const imports = ts.preProcessFile(code).importedFiles.filter(({ fileName }) => /^\.{1,2}\/.*\.ts$/.test(fileName));
  // a range begins at the quote and has the length of the name
  return imports.reduce((text, { end }) => `${text.slice(0, end - 1)}js${text.slice(end + 1)}`, code);
}

/** Fails the build; `npm run types` reports the syntax, too (erasableSyntaxOnly). */
function refuse(file, source, node) {
  const line = source.slice(0, node.getStart()).split('\n').length;
  throw new Error(`${file}:${line}: only erasable TypeScript syntax can be built`);
}
