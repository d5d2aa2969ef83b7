import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { waitFor } from '../assert/wait.ts';

/** Waits until nothing in this process refers to the object any more; fails when something keeps it in memory. */
export async function waitForCollected(ref: WeakRef<object>, what: string): Promise<void> {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  await waitFor(
    () => {
      collect();
      return ref.deref() === undefined;
    },
    { what: `${what} to leave memory` },
  );
}
