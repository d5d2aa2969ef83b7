import { customType, timestamp } from 'drizzle-orm/pg-core';

export const bytea = customType<{ data: Buffer }>({ dataType: () => 'bytea' });
/**
 * `json` preserves its text as written: reads of emails put it into responses without parsing it. (drizzle's own type
 * would parse a JSON string twice.)
 */
export const json = <T>(name: string) =>
  customType<{ data: T; driverData: string }>({ dataType: () => 'json', toDriver: (value) => JSON.stringify(value) })(
    name,
  );
export const at = (name: string) => timestamp(name, { withTimezone: true, precision: 3, mode: 'date' });
