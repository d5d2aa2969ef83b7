import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { waitFor } from '../assert/wait.ts';

/** Waits until the object has been collected; fails when a reference keeps it in memory. */
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
