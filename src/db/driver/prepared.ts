import type { SQL } from 'drizzle-orm';
import { statement } from './statement.ts';

/** A named statement of the webhooks, whose plan connections cache. */
export const prepared = (text: SQL): SQL => statement('webhooks', () => text)();
