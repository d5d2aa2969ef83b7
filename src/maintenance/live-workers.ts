import { liveWorkers } from '../db/coordination/workers.ts';
import type { Db } from '../db/driver/client.ts';

/** The worker processes of the installation, as last read. */
export interface LiveWorkers {
  /** at least 1: this process */
  count(): number;
  /** Whether this worker runs the tasks of the installation: the one that started first. */
  leads(): boolean;
  /** Reads the announcements. */
  look(): Promise<void>;
}

/**
 * Elects the leader by the announcements in Postgres. Two workers may both believe for some seconds that they lead, or
 * neither: every task of the installation may be run twice or late.
 */
export function createLiveWorkers(db: Db, workerId: string): LiveWorkers {
  let count = 1;
  let leads = false;
  return {
    count: () => count,
    leads: () => leads,
    async look() {
      const found = await liveWorkers(db);
      count = Math.max(1, found.length);
      const [first] = found.sort((a, b) => b.ageMs - a.ageMs || (a.id < b.id ? -1 : 1));
      leads = first?.id === workerId;
    },
  };
}
