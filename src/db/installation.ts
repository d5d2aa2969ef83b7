import { eq } from 'drizzle-orm';
import type { Db } from './client.ts';
import { installation } from './schema.ts';

/** A value of the whole installation; undefined when it was never set. */
export async function getInstallationValue(db: Db, name: string): Promise<string | undefined> {
  const [row] = await db.select().from(installation).where(eq(installation.name, name));
  return row?.value;
}

/** Stores a value of the whole installation. */
export async function setInstallationValue(db: Db, name: string, value: string): Promise<void> {
  await db
    .insert(installation)
    .values({ name, value })
    .onConflictDoUpdate({ target: installation.name, set: { value } });
}
