import { type SQL, sql } from 'drizzle-orm';
import { slot } from '../../driver/statement.ts';

/** The pieces of a statement for a page of one account. */
export interface PagedList {
  /** the newest `count` that meet further conditions, in order and each once; with further columns if given */
  page(more: (SQL | undefined)[], count: SQL, columns?: SQL): SQL;
  /** all that meet further conditions, in no order */
  candidates(more: (SQL | undefined)[]): SQL;
  after: SQL | undefined;
  key: SQL;
  /** the id of an email in it */
  id: SQL;
  /** selects about how many emails are in the list, without the filters */
  size: SQL;
}

/** A text search in the two forms that `searchPage` needs. */
export interface TextConditions {
  /** searches each text, without an index */
  byText: SQL;
  /** searches the trigram index */
  byIndex: SQL;
}

export function textConditions({ q, subject }: { q?: string; subject?: string }): TextConditions | undefined {
  const searches: TextConditions[] = [];
  if (q !== undefined) {
    searches.push({ byText: sql`strpos(s.text, ${slot('q')}) > 0`, byIndex: sql`s.text like ${slot('qPattern')}` });
  }
  if (subject !== undefined) {
    const byText = sql`strpos(s.subject, ${slot('subject')}) > 0`;
    searches.push({ byText, byIndex: sql`s.subject like ${slot('subjectPattern')}` });
  }
  if (searches.length === 0) return undefined;
  return {
    byText: sql.join(
      searches.map(({ byText }) => byText),
      sql` and `,
    ),
    byIndex: sql.join(
      searches.map(({ byIndex }) => byIndex),
      sql` and `,
    ),
  };
}

/** The text that a pattern of `likePattern` searches for. */
export function searchedText(pattern: string): string {
  return pattern.slice(1, -1).replace(/\\(.)/gs, '$1');
}

/** Whether the trigram index finds the text: without a trigram, Postgres would read the whole index, of all accounts. */
export const IN_INDEX = sql`${slot('inIndex')}::boolean`;

/** So many of the newest emails show how common the searched text is. */
export const SAMPLE = sql.raw('100');
/** Lists of at most so many emails are searched text by text. */
const SHORT_LIST = sql.raw('2000');

/**
 * Selects of the CTE `sampled` whether it leaves the page `short`, and whether what is searched for is `common` in a list of
 * that size: see searchPage.
 */
export function judgedSample(size: SQL, rows: SQL): SQL {
  return sql`
    select hits < ${rows} and taken = ${SAMPLE} as short,
      not ${IN_INDEX} or size <= ${SHORT_LIST} or hits * hits * size >= ${rows} * ${SAMPLE} * ${SAMPLE} as common
    from (select count(*) filter (where hit) as hits, count(*) as taken from sampled) counted, (${size}) list (size)`;
}

/**
 * A common word is found fastest by searching the newest texts until the page is full. A rare one is found fastest by the
 * trigram index, which finds every hit of all time before the newest can be chosen. With hits at a rate f in N emails, a
 * page of L costs L / f texts the one way and f · N the other: equal at f² = L / N. So the newest SAMPLE are searched
 * first, and if they do not fill the page, their rate decides which way is used. (Postgres cannot decide: it has no
 * statistics of long texts.) Texts without a trigram are always searched one by one. All in one statement; a branch that is
 * not used costs nothing.
 */
export function searchPage(text: TextConditions, list: PagedList, rows: SQL): SQL {
  const { page, candidates, after, key, size } = list;
  const beyond = sql`${key} < (select date, id from sampled order by date, id limit 1)`;
  return sql`
    with sampled as materialized (${page([after], SAMPLE, sql`, ${text.byText} as hit`)}),
    sample as materialized (${judgedSample(size, rows)})
    (select id, date from sampled where hit order by date desc, id desc limit ${rows})
    union all
    (${page([beyond, sql`(select short and common from sample)`, text.byText], rows)})
    union all
    (select distinct on (date, id) id, date
      from (${candidates([beyond, sql`(select short and not common from sample)`, text.byIndex])}) hits
      order by date desc, id desc limit ${rows})
    order by date desc, id desc limit ${rows}`;
}
