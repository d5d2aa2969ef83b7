import { rename, rm } from 'node:fs/promises';

/** Files and folders that are replaced together, and can be put back. */
export interface Swap {
  /** Moves `from` to `to`; what is there gets another name. */
  put(from: string, to: string): Promise<void>;
  /** Gives `path` another name. */
  away(path: string): Promise<void>;
  /** Puts everything back, and deletes what `put` has moved. */
  undo(): Promise<void>;
  /** The new names of what was replaced. */
  replaced(): string[];
}

/** `suffix` makes the new names of what is replaced. */
export function createSwap(suffix: string): Swap {
  const moved: string[] = [];
  const kept: { path: string; as: string }[] = [];
  async function away(path: string): Promise<void> {
    const as = `${path}${suffix}`;
    try {
      await rename(path, as);
      kept.push({ path, as });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
  }
  return {
    away,
    async put(from, to) {
      await away(to);
      await rename(from, to);
      moved.push(to);
    },
    async undo() {
      for (const path of moved) await rm(path, { recursive: true, force: true });
      for (const { path, as } of kept) {
        await rm(path, { recursive: true, force: true });
        await rename(as, path);
      }
    },
    replaced: () => kept.map(({ as }) => as),
  };
}
