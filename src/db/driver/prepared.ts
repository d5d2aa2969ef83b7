import type { SQL } from 'drizzle-orm';
import { statement } from './statement.ts';

/** A statement of the webhooks whose plan connections keep. */
export const prepared = (text: SQL): SQL => statement('webhooks', () => text)();
