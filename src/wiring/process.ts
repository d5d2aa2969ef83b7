import { type Config, ConfigError, type Env, loadConfig } from '../config/config.ts';
import { isUnusable } from '../db/driver/unusable.ts';
import { answerChecks } from '../runtime/alive.ts';
import { createLogger, type Logger } from '../runtime/logger.ts';
import { receiveSettings } from '../runtime/settings-message.ts';
import { VERSION } from '../runtime/version.ts';

/**
 * Runs `main` with the settings of this process. A wrong setting, or a database that cannot be used, ends the process with
 * code 1 and one line that says what to do; any other rejection is logged as fatal.
 */
export async function startProcess(
  name: string,
  env: Env,
  main: (config: Config, logger: Logger) => Promise<void>,
): Promise<void> {
  let logger: Logger | undefined;
  try {
    await receiveSettings(process);
    answerChecks(process);
    const config = loadConfig(env);
    logger = createLogger(config.logLevel, name);
    logger.info({ version: VERSION }, 'process starting');
    await main(config, logger);
  } catch (err) {
    if (err instanceof ConfigError || isUnusable(err)) process.stderr.write(`${err.message}\n`);
    else if (logger) logger.fatal({ err }, 'process failed');
    else throw err;
    process.exit(1);
  }
}

/** Calls `end` on the first SIGTERM or SIGINT, and ends the process with code 1 after a further `ms` milliseconds. */
export function onSignalToEnd(ms: number, end: (signal: NodeJS.Signals) => void): void {
  let isEnding = false;
  const once = (signal: NodeJS.Signals) => {
    if (isEnding) return;
    isEnding = true;
    setTimeout(() => process.exit(1), ms).unref();
    end(signal);
  };
  process.on('SIGTERM', once).on('SIGINT', once);
}
