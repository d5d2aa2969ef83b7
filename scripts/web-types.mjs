// web/src/api/schema.d.ts: generates the types of the public API for the pages from the OpenAPI golden file.
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import openapiTS, { astToString } from 'openapi-typescript';
import { root } from './install.mjs';

const DOCUMENT = join(root, 'test', 'openapi.golden.json');
const TYPES = join(root, 'web', 'src', 'api', 'schema.d.ts');

const text = readFileSync(DOCUMENT, 'utf8');
const head = `// Made by scripts/web-types.mjs from ${createHash('sha256').update(text).digest('hex')}\n`;
if (!existsSync(TYPES) || !readFileSync(TYPES, 'utf8').startsWith(head)) {
  writeFileSync(TYPES, head + astToString(await openapiTS(JSON.parse(text), { defaultNonNullable: false })));
}
