import { useSearchParams } from 'wouter-preact';
import { TextField } from './field.tsx';
import { isoOf, localOf, useParam } from './query.ts';

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;

interface Range {
  since: string;
  until: string;
}

/** From the evening before to this morning, at the hours when nobody looks. */
function lastNight(now: Date): Range {
  const today = localOf(now).slice(0, 10);
  // noon, since a day may have 23 hours
  const yesterday = localOf(new Date(new Date(isoOf(`${today}T12:00`) ?? now).getTime() - DAY_MS)).slice(0, 10);
  return { since: `${yesterday}T18:00`, until: `${today}T08:00` };
}

const last = (ms: number) => (now: Date) => ({ since: localOf(new Date(now.getTime() - ms)), until: '' });

const PRESETS: [string, (now: Date) => Range][] = [
  ['15 min', last(15 * MINUTE_MS)],
  ['1 h', last(60 * MINUTE_MS)],
  ['Last night, 18–08', lastNight],
  ['24 h', last(DAY_MS)],
  ['7 days', last(7 * DAY_MS)],
];

/** The time filter of a list, in the query of the page's URL. */
export function useRange() {
  const [since, setSince] = useParam('since');
  const [until, setUntil] = useParam('until');
  const [, setParams] = useSearchParams();
  const set = (range: Range) =>
    setParams(
      (before) => {
        const after = new URLSearchParams(before);
        for (const name of ['offset', 'cursor', 'since', 'until']) after.delete(name);
        if (range.since !== '') after.set('since', range.since);
        if (range.until !== '') after.set('until', range.until);
        return after;
      },
      { replace: true },
    );
  return { since, until, setSince, setUntil, set };
}

/** The fields of the time filter, with ranges to choose. */
export function RangeFields({ range }: { range: ReturnType<typeof useRange> }) {
  return (
    <>
      <TextField label="From" type="datetime-local" value={range.since} set={range.setSince} />
      <TextField label="Until" type="datetime-local" value={range.until} set={range.setUntil} />
      <div class="presets" role="group" aria-label="Time range">
        {PRESETS.map(([label, of]) => (
          <button key={label} type="button" class="button small" onClick={() => range.set(of(new Date()))}>
            {label}
          </button>
        ))}
        {(range.since || range.until) && (
          <button type="button" class="button plain small" onClick={() => range.set({ since: '', until: '' })}>
            Any time
          </button>
        )}
      </div>
    </>
  );
}
