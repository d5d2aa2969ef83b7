/** How much longer than its budget work may take where the machine is too busy to give it the CPU. */
const PATIENCE = 3;

/**
 * A budget of time for work that begins now: the answer says whether it is used up. Time counts while this process
 * has the CPU, so that mail is not cut short because a machine is overloaded; after three times the budget on the
 * clock it is used up in any case.
 */
export function createBudget(ms: number): () => boolean {
  const startedAt = performance.now();
  const startedWith = process.cpuUsage();
  return () => {
    const elapsed = performance.now() - startedAt;
    if (elapsed <= ms) return false;
    const { user, system } = process.cpuUsage(startedWith);
    return elapsed > ms * PATIENCE || (user + system) / 1000 > ms;
  };
}
