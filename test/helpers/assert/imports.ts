import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import ts from 'typescript';

export interface Import {
  /** path from the root of the project */
  from: string;
  /** path from the root of the project for a file of ours, else the name of the module */
  to: string;
  isOurs: boolean;
  /** only types: absent at run time */
  isTypeOnly: boolean;
}

/** Every static and dynamic import of the sources under `root`: its `src` and the entry files beside it. */
export function importsOf(root: string): Import[] {
  return sourceFiles(root).flatMap((file) => importsOfFile(root, file));
}

/** Paths from the root of all TypeScript of the product. */
export function sourceFiles(root: string): string[] {
  const inSrc = readdirSync(join(root, 'src'), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts') && !entry.name.endsWith('.d.ts'))
    .map((entry) => relative(root, join(entry.parentPath, entry.name)));
  return [...readdirSync(root).filter((name) => name.endsWith('.ts')), ...inSrc].sort();
}

function importsOfFile(root: string, file: string): Import[] {
  const source = ts.createSourceFile(file, readFileSync(join(root, file), 'utf8'), ts.ScriptTarget.ESNext);
  const found: Import[] = [];
  const add = (specifier: ts.Expression | undefined, isTypeOnly: boolean) => {
    if (specifier === undefined || !ts.isStringLiteral(specifier)) return;
    const isOurs = specifier.text.startsWith('.');
    const to = isOurs ? relative(root, resolve(root, dirname(file), specifier.text)) : specifier.text;
    found.push({ from: file, to, isOurs, isTypeOnly });
  };
  const visit = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node)) add(node.moduleSpecifier, isTypeImport(node.importClause));
    else if (ts.isExportDeclaration(node)) add(node.moduleSpecifier, node.isTypeOnly);
    else if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) {
      add(node.arguments[0], false);
    } else if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument)) {
      add(node.argument.literal, true);
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

function isTypeImport(clause: ts.ImportClause | undefined): boolean {
  if (clause === undefined) return false;
  if (clause.isTypeOnly) return true;
  const named = clause.namedBindings;
  return (
    clause.name === undefined &&
    named !== undefined &&
    ts.isNamedImports(named) &&
    named.elements.every((element) => element.isTypeOnly)
  );
}

/** Circles among imports, those of types included, each as the list of its files. */
export function circles(imports: readonly Import[]): string[][] {
  const edges = new Map<string, string[]>();
  for (const { from, to, isOurs } of imports) {
    if (isOurs) edges.set(from, [...(edges.get(from) ?? []), to]);
  }
  const found: string[][] = [];
  const done = new Set<string>();
  const walk = (file: string, path: string[]): void => {
    const seenAt = path.indexOf(file);
    if (seenAt >= 0) found.push([...path.slice(seenAt), file]);
    if (seenAt >= 0 || done.has(file)) return;
    for (const next of edges.get(file) ?? []) walk(next, [...path, file]);
    done.add(file);
  };
  for (const file of edges.keys()) walk(file, []);
  return found;
}
