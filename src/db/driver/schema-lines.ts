import type { Pool } from 'pg';

/** One fact about an object of the schema: `accounts`, `column id text not null`. */
export interface SchemaLine {
  object: string;
  detail: string;
}

/** Columns whose large values are compressed by lz4 or, on a server without it, not at all are the same. */
const COLUMN = `'column ' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
  || case when a.attnotnull then ' not null' else '' end
  || coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), '')
  || case when a.attidentity <> '' then ' identity' else '' end || case when a.attgenerated <> '' then ' generated' else '' end
  || case when a.attcompression = 'l' or a.attstorage <> t.typstorage then ' without pglz' else '' end`;

// Not null is a constraint from Postgres 18 on, and a property of the column before.
const SCHEMA_LINES = `
  with relations as (
    select c.oid, c.relname, c.relkind from pg_class c
    where c.relnamespace = quote_ident(current_schema)::regnamespace and c.relkind not in ('i', 'I', 't', 'c')
      and not exists (select from pg_depend where classid = 'pg_class'::regclass and objid = c.oid and deptype = 'e')
  ), lines (object, detail) as (
    select 'extension ' || extname, 'installed' from pg_extension where extname <> 'plpgsql'
    union all
    select relname, case relkind when 'r' then 'table' when 'S' then 'sequence' else 'relation of kind ' || relkind::text end
    from relations
    union all
    select r.relname, ${COLUMN}
    from relations r join pg_attribute a on a.attrelid = r.oid and a.attnum > 0 and not a.attisdropped
    join pg_type t on t.oid = a.atttypid left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
    union all
    select r.relname, 'constraint ' || c.conname || ' ' || pg_get_constraintdef(c.oid, true)
    from relations r join pg_constraint c on c.conrelid = r.oid and c.contype not in ('n', 't')
    union all
    select r.relname, regexp_replace(pg_get_indexdef(i.indexrelid, 0, true), '^CREATE ', '')
      || case when i.indisvalid then '' else ' invalid' end
    from relations r join pg_index i on i.indrelid = r.oid
    where not exists (select from pg_constraint c where c.conindid = i.indexrelid and c.contype in ('p', 'u', 'x'))
    union all
    select r.relname, regexp_replace(pg_get_triggerdef(g.oid, true), '^CREATE ', '')
      || case g.tgenabled when 'O' then '' else ' enabled: ' || g.tgenabled::text end
    from relations r join pg_trigger g on g.tgrelid = r.oid and not g.tgisinternal
    union all
    select 'function ' || p.proname || '(' || pg_get_function_identity_arguments(p.oid) || ')',
      'returns ' || pg_get_function_result(p.oid) || ' ' || l.lanname || ' volatility ' || p.provolatile::text || ': '
      || regexp_replace(btrim(p.prosrc, E' \\n\\t'), '\\s+', ' ', 'g')
    from pg_proc p join pg_language l on l.oid = p.prolang
    where p.pronamespace = quote_ident(current_schema)::regnamespace and p.prokind = 'f'
      and not exists (select from pg_depend where classid = 'pg_proc'::regclass and objid = p.oid and deptype = 'e')
  )
  select object, detail from lines order by object collate "C", detail collate "C"`;

/**
 * The contents of the connection's current schema: extensions, tables with their columns, constraints, indexes and
 * triggers, sequences and functions, without the order of columns. It takes only locks of reads.
 */
export async function readSchema(client: Pick<Pool, 'query'>): Promise<SchemaLine[]> {
  return (await client.query<SchemaLine>(SCHEMA_LINES)).rows;
}
