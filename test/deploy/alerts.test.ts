import { readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { parse, stringify } from 'yaml';
import { run } from '../helpers/product/child.ts';
import { promtool } from '../helpers/servers/promtool.ts';
import { ALERT_CASES, type AlertCase } from './alert-cases.ts';

/** The alert rules, run by Prometheus' own tool. */

const RULES = join(import.meta.dirname, '..', '..', 'deploy', 'prometheus', 'alerts.yml');
const { groups } = parse(readFileSync(RULES, 'utf8')) as {
  groups: { rules: { alert: string; annotations: { summary?: string; description?: string } }[] }[];
};
const rules = groups.flatMap((group) => group.rules);
let tool: string;
let dir: string;

beforeAll(async () => {
  tool = await promtool();
  dir = await mkdtemp(join(tmpdir(), 'alerts-'));
}, 300_000);
afterAll(() => rm(dir, { recursive: true, force: true }));

/** The output of promtool where the alert does not fire as often as expected; undefined: it does. */
async function failureOf({ alert, series, at, fires }: AlertCase): Promise<string | undefined> {
  const file = join(dir, 'case.yml');
  const exprTest = {
    expr: `count(ALERTS{alertname="${alert}",alertstate="firing"}) or vector(0)`,
    eval_time: `${at}m`,
    exp_samples: [{ labels: '{}', value: fires }],
  };
  const inputs = Object.entries(series).map(([name, values]) => ({ series: name, values }));
  const test = { interval: '1m', input_series: inputs, promql_expr_test: [exprTest] };
  await writeFile(file, stringify({ rule_files: [RULES], evaluation_interval: '1m', tests: [test] }));
  return run(tool, ['test', 'rules', file]).then(
    () => undefined,
    (error: { stdout?: string; stderr?: string }) => `${error.stdout ?? ''}${error.stderr ?? ''}`,
  );
}

it('can be loaded', async () => {
  await run(tool, ['check', 'rules', RULES]);
});

describe('each alert', () => {
  it.each(rules)('$alert says what happens and what to do, and has situations of both kinds', (rule) => {
    const { summary, description } = rule.annotations;
    expect([summary, description]).toEqual([expect.stringMatching(/\.$/), expect.stringMatching(/\.$/)]);
    const kinds = ALERT_CASES.filter(({ alert }) => alert === rule.alert).map(({ fires }) => fires > 0);
    expect([...new Set(kinds)].sort()).toEqual([false, true]);
  });

  it.each(ALERT_CASES)('$alert fires $fires times when $situation', async (situation) => {
    expect(await failureOf(situation)).toBeUndefined();
  });
});
