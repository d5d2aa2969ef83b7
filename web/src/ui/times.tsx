import { showTimes, TIMES, type Times } from './format.ts';

/** Chooses how times are shown; `changed` renders the page again. */
export function TimesSwitch({ times, changed }: { times: Times; changed: (times: Times) => void }) {
  return (
    <select
      class="input"
      aria-label="Times"
      value={times}
      onChange={(event) => {
        const value = event.currentTarget.value as Times;
        showTimes(value);
        changed(value);
      }}
    >
      {Object.entries(TIMES).map(([value, label]) => (
        <option key={value} value={value}>
          {label}
        </option>
      ))}
    </select>
  );
}
