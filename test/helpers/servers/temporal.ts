import { mkdirSync } from 'node:fs';
import { join } from 'node:path';

/** Namespaces that exist when the tests begin: making one later takes 1.6 s until its search attributes are known. */
export const NAMESPACES = Array.from({ length: 80 }, (_, index) => `test-${index + 1}`);

export interface TestTemporal {
  address: string;
  namespace: string;
  /** the `temporal` program, for tests that need a separate server */
  binary: string;
}

/** The Temporal server of this run, with a namespace that no other caller gets. Throws outside of `npm test`. */
export function testTemporal(): TestTemporal {
  return {
    address: required('TEST_TEMPORAL_ADDRESS'),
    namespace: takeNamespace(),
    binary: required('TEST_TEMPORAL_BINARY'),
  };
}

/** Making a folder succeeds for one caller only, over all processes. */
function takeNamespace(): string {
  const dir = join(required('TEST_DIR'), 'namespaces');
  for (const name of NAMESPACES) {
    try {
      mkdirSync(join(dir, name));
      return name;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
  }
  throw new Error(`all ${NAMESPACES.length} namespaces are in use`);
}

function required(name: string): string {
  const value = process.env[name];
  if (value === undefined) throw new Error(`${name} is not set: run tests by \`npm test -- <path>\``);
  return value;
}
