import { parser } from '@prometheus-io/lezer-promql';

/** The names of the metrics in a PromQL query. @throws Error when it cannot be parsed */
export function metricsIn(query: string): string[] {
  const names: string[] = [];
  parser.parse(query).iterate({
    enter(node) {
      if (node.type.isError) throw new Error(`no PromQL at ${node.from}: ${query}`);
      if (node.name === 'VectorSelector') {
        const name = node.node.getChild('Identifier');
        if (name) names.push(query.slice(name.from, name.to));
      }
    },
  });
  return names;
}

/** The names that a scrape has samples for, or describes: those of a histogram with their suffixes. */
export function metricsOf(scrape: string): Set<string> {
  const names = new Set<string>();
  for (const [, name = '', type] of scrape.matchAll(/^# TYPE (\S+) (\w+)$/gm)) {
    names.add(name);
    if (type === 'histogram') for (const suffix of ['bucket', 'sum', 'count']) names.add(`${name}_${suffix}`);
  }
  return names;
}
