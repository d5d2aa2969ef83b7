import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import ts from 'typescript';
import { sourceFiles } from '../helpers/assert/imports.ts';

/*
 * docs/logs.md lists every line that the product logs: operators search for these texts and alert on them. A text is static,
 * since values belong in fields, and starts with what happened.
 */
const ROOT = join(import.meta.dirname, '..', '..');
const LEVELS = new Set(['trace', 'debug', 'info', 'warn', 'error', 'fatal']);
/** Passes on the lines of the Temporal SDK, whose texts are its own. */
const PASSES_ON = 'src/temporal/runtime.ts';

interface Line {
  file: string;
  level: string;
  /** undefined: not static */
  text: string | undefined;
  /** those named where it is logged */
  fields: string[];
}

const lines = sourceFiles(ROOT)
  .filter((file) => file !== PASSES_ON)
  .flatMap(linesOf);
const rows = readFileSync(join(ROOT, 'docs', 'logs.md'), 'utf8')
  .split('\n')
  .flatMap((row) => {
    const [, level, text, fields = ''] = /^\| `([a-z]+)` \| `([^`]+)` \|([^|]*)\|/.exec(row) ?? [];
    if (level === undefined || text === undefined) return [];
    return [{ level, text, fields: [...fields.matchAll(/`([^`]+)`/g)].map(([, name]) => name) }];
  });

it('finds the lines of every kind of call', () => {
  expect(lines).toContainEqual({ file: 'worker.ts', level: 'info', text: 'worker ready', fields: [] });
  expect(lines.filter(({ text }) => text === 'request finished').map(({ level }) => level)).toEqual(['debug', 'info']);
});

it('every text is static', () => {
  expect(lines.filter(({ text }) => text === undefined)).toEqual([]);
});

it('no text begins with an article', () => {
  expect(lines.filter(({ text }) => /^(an?|the) /i.test(text ?? ''))).toEqual([]);
});

it('docs/logs.md has each line with its level, and no other', () => {
  const named = ({ level, text }: { level: string; text: string | undefined }) => `${level} ${text}`;
  const unique = (names: string[]) => [...new Set(names)].sort();
  expect(rows.map(named).sort()).toEqual(unique(lines.map(named)));
});

it('an error is logged as `err`, and why something failed as `reason`', () => {
  expect(lines.filter(({ fields }) => fields.includes('error'))).toEqual([]);
});

it('docs/logs.md names the fields of each line', () => {
  const missing = lines.flatMap(({ file, level, text, fields }) => {
    const row = rows.find((one) => one.level === level && one.text === text);
    return fields.filter((name) => !row?.fields.includes(name)).map((name) => `${file}: ${text}: ${name}`);
  });
  expect(missing).toEqual([]);
});

function linesOf(file: string): Line[] {
  const source = ts.createSourceFile(file, readFileSync(join(ROOT, file), 'utf8'), ts.ScriptTarget.ESNext, true);
  const found: Line[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isCallExpression(node)) {
      const [first, second] = node.arguments;
      const fields = first && ts.isObjectLiteralExpression(first) ? first.properties.flatMap(nameOf) : [];
      for (const level of levelsOf(node.expression)) {
        for (const text of textsOf(second ?? first)) found.push({ file, level, text, fields });
      }
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

/** The levels at which a call logs: that of `logger.warn`, both of `log[quiet ? 'debug' : 'info']`; else none. */
function levelsOf(callee: ts.Expression): string[] {
  if (!ts.isPropertyAccessExpression(callee) && !ts.isElementAccessExpression(callee)) return [];
  const { expression } = callee;
  const name = ts.isPropertyAccessExpression(expression) ? expression.name : expression;
  if (!ts.isIdentifier(name) || !/^log(ger)?$/i.test(name.text)) return [];
  if (ts.isPropertyAccessExpression(callee)) return LEVELS.has(callee.name.text) ? [callee.name.text] : [];
  return textsOf(callee.argumentExpression).map((level) => level ?? 'unknown');
}

function textsOf(node: ts.Expression | undefined): (string | undefined)[] {
  if (node && ts.isStringLiteralLike(node)) return [node.text];
  if (node && ts.isConditionalExpression(node)) return [...textsOf(node.whenTrue), ...textsOf(node.whenFalse)];
  return [undefined];
}

function nameOf(property: ts.ObjectLiteralElementLike): string[] {
  return property.name && ts.isIdentifier(property.name) ? [property.name.text] : [];
}
