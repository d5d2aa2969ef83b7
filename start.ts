/*
 * `npm start`: everything on one machine. Starts Postgres and Temporal unless settings name them, then the worker and the
 * API, each a process that is restarted when it exits. Runs until a signal to stop.
 */
import { join, relative } from 'node:path';
import { ConfigError, loadStartConfig } from './src/config/config.ts';
import { refuseUnfinishedRestore } from './src/embedded/backup/swap.ts';
import { type BroughtUp, bringUp } from './src/embedded/bring-up.ts';
import { type DataDir, openDataDir } from './src/embedded/data-dir.ts';
import { StartFailure } from './src/embedded/failure.ts';
import { createReport } from './src/embedded/report.ts';
import { createSupervisor, type Supervisor } from './src/embedded/supervise.ts';
import { VERSION } from './src/runtime/version.ts';

const report = createReport(process.stdout);
let dataDir: DataDir | undefined;
let supervisor: Supervisor | undefined;
let ending: Promise<never> | undefined;

/** Ends all processes, unlocks the data folder and ends this process; later calls wait for the first. */
function end(code: number, line?: string): Promise<never> {
  ending ??= (async () => {
    if (line !== undefined) report.line(line);
    await supervisor?.stop();
    dataDir?.release();
    process.exit(code);
  })();
  return ending;
}

async function start(): Promise<void> {
  const settings = loadStartConfig(process.env);
  const dir = (dataDir = await openDataDir(settings.dataDir, report.line));
  refuseUnfinishedRestore(dir.path);
  supervisor = createSupervisor({
    logDir: join(dir.path, 'logs'),
    printLine: report.line,
    onChange: (handles) => dir.recordProcesses(handles),
  });
  const result = await bringUp({ env: process.env, settings, dataDir: dir, supervisor, report });
  announce(result, dir);
}

function announce({ apiUrl, workerMetricsUrls, temporalUi, apiKey }: BroughtUp, dir: DataDir): void {
  const here = (path: string) => relative(process.cwd(), path) || '.';
  const rows = [
    ['Dashboard', `${apiUrl}/`],
    ['API', `${apiUrl}/api/v1`],
    ['Docs', `${apiUrl}/docs/`],
    ['Reference', `${apiUrl}/docs/reference`],
    ...(temporalUi === undefined
      ? []
      : [
          [
            'Temporal UI',
            `${temporalUi.url} (its password, which decodes payloads, is in ${here(temporalUi.passwordFile)})`,
          ],
        ]),
    ['Metrics', [`${apiUrl}/metrics`, ...workerMetricsUrls].join(' and ')],
  ];
  let keyForCurl = '$BOOTSTRAP_API_KEY';
  if (apiKey !== undefined) {
    const isNew = dir.isFirst('bootstrap-api-key.shown');
    keyForCurl = isNew ? apiKey.value : `$(cat ${here(apiKey.file)})`;
    rows.push([
      'API key',
      isNew ? `${apiKey.value} (shown this once, stored in ${here(apiKey.file)})` : `in ${here(apiKey.file)}`,
    ]);
  }
  rows.push(['Data and logs', here(dir.path)]);
  const credentials = '{"user":"you@example.com","password":"your app password"}';
  report.line(
    [
      '',
      `The Email API ${VERSION} is ready.`,
      '',
      ...rows.map(([name, value]) => `  ${name?.padEnd(13)}  ${value}`),
      '',
      'Connect a mailbox:',
      '',
      `  curl -X POST ${apiUrl}/api/v1/auth/intent -H "X-API-KEY: ${keyForCurl}" -H "Content-Type: application/json" ` +
        `-d '{"provider":"imap","credentials":${credentials}}'`,
      '',
      'Ctrl-C stops it.',
    ].join('\n'),
  );
}

/** A killed npm sends no signal: this process then gets another parent. */
function endWithNpm(): void {
  if (process.env['npm_lifecycle_event'] === undefined) return;
  const npm = process.ppid;
  setInterval(() => process.ppid === npm || void end(0, 'npm has exited: stopping …'), 1000).unref();
}

function oneLine(error: unknown): string {
  if (error instanceof ConfigError || error instanceof StartFailure) return error.message;
  return `The start failed: ${error instanceof Error ? (error.message.split('\n')[0] ?? error.name) : String(error)}`;
}

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => void end(0, 'Stopping …'));
process.on('uncaughtException', (error) => void end(1, oneLine(error)));
endWithNpm();
start().catch((error: unknown) => end(1, oneLine(error)));
