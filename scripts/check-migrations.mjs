// `npm run db:check`: fails when src/db/schema/index.ts and the migrations differ. Changes no file of the project.
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { ensureInstalled, node, root } from './install.mjs';

await ensureInstalled();
const out = mkdtempSync(join(tmpdir(), 'migrations-'));
try {
  cpSync(join(root, 'src', 'db', 'migrations'), out, { recursive: true });
  const existing = new Set(readdirSync(out));
  // drizzle-kit takes paths from the working directory only, and exits with 0 when it fails
  const paths = ['--schema', './src/db/schema/index.ts', '--out', relative(root, out)];
  const drizzleKit = join(root, 'node_modules', 'drizzle-kit', 'bin.cjs');
  const output = await node([drizzleKit, 'generate', '--dialect', 'postgresql', '--name', 'missing', ...paths]);
  const missing = readdirSync(out).filter((name) => !existing.has(name));
  for (const name of missing) console.error(readFileSync(join(out, name), 'utf8'));
  if (missing.length > 0) {
    console.error('The migrations lack these statements: run `npm run db:generate -- --name what_changed`.');
    process.exitCode = 1;
  } else if (!output.includes('No schema changes')) {
    console.error(output);
    process.exitCode = 1;
  }
} finally {
  rmSync(out, { recursive: true });
}
