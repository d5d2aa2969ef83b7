import { join } from 'node:path';
import { SEARCH_ATTRIBUTES, searchAttributeType } from '../workflows/names.ts';
import type { Part } from './supervise.ts';

export interface TemporalOptions {
  /** the `temporal` program */
  binary: string;
  /** file of the database; without it the data is in memory only (tests) */
  dbFile?: string;
  /** loopback ports */
  port: number;
  httpPort: number;
  /** without it there is no UI */
  uiPort?: number;
  /** the codec server that decodes payloads for the UI, e.g. `http://127.0.0.1:8234` */
  uiCodecEndpoint?: string;
  /** created in addition to `default` */
  namespaces?: readonly string[];
}

/*
 * One dev server has one history shard: at the default of 20 polls a second every hop waits 45 ms. Four partitions of a
 * task queue only add latency here. The two pragmas took it from 20 to 60 runs/s with a file.
 */
const DYNAMIC_CONFIG = [
  'history.transferProcessorMaxPollRPS=100',
  'system.forceSearchAttributesCacheRefreshOnRead=false',
  'matching.numTaskqueueReadPartitions=1',
  'matching.numTaskqueueWritePartitions=1',
  'system.enableActivityEagerExecution=true',
];
const PRAGMAS = ['journal_mode=wal', 'synchronous=1'];

/** Describes the embedded Temporal server for the supervisor. It listens on loopback only. */
export function embedTemporal(options: TemporalOptions): { address: string; part: Part } {
  const { binary, dbFile, port, httpPort, uiPort, uiCodecEndpoint, namespaces = [] } = options;
  const each = (flag: string, values: readonly string[]) => values.flatMap((value) => [flag, value]);
  const args = [
    ...['server', 'start-dev', '--ip', '127.0.0.1', '--log-level', 'warn', '--log-format', 'json'],
    ...['--port', String(port), '--http-port', String(httpPort)],
    ...(dbFile === undefined ? [] : ['--db-filename', dbFile, ...each('--sqlite-pragma', PRAGMAS)]),
    ...(uiPort === undefined ? ['--headless'] : ['--ui-port', String(uiPort)]),
    ...(uiCodecEndpoint === undefined ? [] : ['--ui-codec-endpoint', uiCodecEndpoint]),
    ...each('--namespace', namespaces),
    ...each('--dynamic-config-value', DYNAMIC_CONFIG),
    ...each(
      '--search-attribute',
      Object.values(SEARCH_ATTRIBUTES).map((name) => `${name}=${searchAttributeType(name)}`),
    ),
  ];
  return {
    address: `127.0.0.1:${port}`,
    part: {
      name: 'temporal',
      command: binary,
      args,
      // the CLI reads a configuration file from HOME; the user's is not meant for this server
      env: { PATH: '/usr/bin:/bin', HOME: dbFile === undefined ? '/nonexistent' : join(dbFile, '..') },
      stopSignal: 'SIGTERM',
      stopMs: 3500,
      readyMs: 60_000,
      isReady: () => knowsSearchAttributes(`http://127.0.0.1:${httpPort}`),
    },
  };
}

/** The dev server registers them last when it starts. */
async function knowsSearchAttributes(baseUrl: string): Promise<boolean> {
  try {
    const response = await fetch(`${baseUrl}/api/v1/namespaces/default/search-attributes`, {
      signal: AbortSignal.timeout(2000),
    });
    const { customAttributes = {} } = (await response.json()) as { customAttributes?: Record<string, string> };
    return Object.values(SEARCH_ATTRIBUTES).every((name) => name in customAttributes);
  } catch {
    return false;
  }
}
