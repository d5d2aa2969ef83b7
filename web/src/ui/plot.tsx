import { useEffect, useRef } from 'preact/hooks';
import type uPlot from 'uplot';
import { clockOf } from './format.ts';

export interface Series {
  name: string;
  color: '1' | '2' | 'good' | 'bad' | 'idle';
  values: number[];
}

interface Props {
  /** text alternative, with the sums */
  label: string;
  /** start of each value, oldest first */
  at: string[];
  series: Series[];
  /** each series stands on those before it, so that none hides another */
  stacked?: boolean;
}

const HEIGHT = 200;

/** Lines over time. Loads the library on first use. */
export function Plot({ label, at, series: given, stacked = false }: Props) {
  const series = stacked ? stack(given) : given;
  const ref = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>();
  const shown = given.map(({ name, values }) => `${name}: ${values.reduce((sum, value) => sum + value, 0)}`).join(', ');
  const data = () =>
    [at.map((one) => new Date(one).getTime() / 1000), ...series.map(({ values }) => values)] as uPlot.AlignedData;
  const latest = useRef(data);
  latest.current = data;

  useEffect(() => {
    let gone = false;
    const draw = async () => {
      const [{ default: UPlot }] = await Promise.all([import('uplot'), import('uplot/dist/uPlot.min.css')]);
      const element = ref.current;
      if (gone || !element) return;
      plot.current?.destroy();
      plot.current = new UPlot(options(element.clientWidth, series), latest.current(), element);
    };
    const resize = new ResizeObserver(([entry]) => {
      if (entry) plot.current?.setSize({ width: Math.floor(entry.contentRect.width), height: HEIGHT });
    });
    const redraw = () => void draw();
    redraw();
    if (ref.current) resize.observe(ref.current);
    // colors come from the theme
    const system = matchMedia('(prefers-color-scheme: dark)');
    system.addEventListener('change', redraw);
    window.addEventListener('themechange', redraw);
    return () => {
      gone = true;
      resize.disconnect();
      system.removeEventListener('change', redraw);
      window.removeEventListener('themechange', redraw);
      plot.current?.destroy();
      plot.current = undefined;
    };
  }, [series.length]);
  useEffect(() => plot.current?.setData(data()));

  return (
    <figure class="stack-s">
      <div class="plot" ref={ref} role="img" aria-label={`${label}. ${shown}`} />
      <figcaption class="legend">
        {given.map(({ name, color }) => (
          <span key={name}>
            <i class={`swatch-${color}`} />
            {name}
          </span>
        ))}
      </figcaption>
    </figure>
  );
}

/** Sums of each series and those before it; the highest is drawn first. */
function stack(series: Series[]): Series[] {
  const sums: Series[] = [];
  for (const each of series) {
    const below = sums.at(-1)?.values;
    sums.push({ ...each, values: each.values.map((value, index) => value + (below?.[index] ?? 0)) });
  }
  return sums.reverse();
}

function options(width: number, series: Series[]): uPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const color = (name: string) => style.getPropertyValue(name).trim();
  const axis = {
    stroke: color('--ink-2'),
    font: `12px ${color('--font')}`,
    grid: { stroke: color('--line'), width: 1 },
    ticks: { show: false },
  };
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    cursor: { y: false, points: { size: 6 } },
    padding: [8, 20, 0, 0],
    scales: { y: { range: (_plot, _min, max) => [0, Math.max(4, Math.ceil(max * 1.1))] } },
    axes: [
      {
        ...axis,
        grid: { show: false },
        // a label in 12-hour form is 57 pixels wide
        space: 80,
        values: (_plot, splits) => splits.map((value) => clockOf(new Date(value * 1000))),
      },
      {
        ...axis,
        size: 44,
        // counts are integers
        values: (_plot, splits) => splits.map((value) => (Number.isInteger(value) ? String(value) : '')),
      },
    ],
    series: [
      {},
      ...series.map(({ name, color: key }) => ({
        label: name,
        stroke: color(`--plot-${key}`),
        width: 2,
        fill: `${color(`--plot-${key}`)}18`,
        points: { show: false },
      })),
    ],
  };
}
