import pg from 'pg';

/** The statements that this process sends to Postgres while `work` runs, in order, on all connections. */
export async function statementsOf(work: () => Promise<unknown>): Promise<string[]> {
  const statements: string[] = [];
  const prototype = pg.Client.prototype as { query: (...args: unknown[]) => unknown };
  const { query } = prototype;
  prototype.query = function counted(...args: unknown[]) {
    const [given] = args;
    statements.push(typeof given === 'string' ? given : ((given as { text?: string }).text ?? ''));
    return query.apply(this, args);
  };
  try {
    await work();
  } finally {
    prototype.query = query;
  }
  return statements.map((text) => text.replace(/\s+/g, ' ').trim());
}
