/*
 * `npm run restore -- FILE`: replaces what `npm start` stores by a backup, while it is stopped. With DATABASE_URL and without a
 * file: marks a database that pg_restore has restored.
 */
import { mark, refuseWorkers, restoreBackup } from './src/embedded/backup/restore.ts';
import { interruptible } from './src/embedded/backup/data-command.ts';
import { dataConfig, OWN_POSTGRES, runDataCommand } from './src/embedded/backup/data-config.ts';
import { createSecrets } from './src/security/secrets.ts';
import { codecKeys } from './src/temporal/connect.ts';

const USAGE = 'Usage: npm run restore -- FILE, or with DATABASE_URL, after pg_restore: npm run restore';

await runDataCommand(USAGE, process.env, async ({ args, env, report }) => {
  const [file] = args;
  if (args.length > 1) return false;
  const { settings, config } = dataConfig(env);
  const { keyId } = createSecrets(codecKeys(config));
  if (file === undefined) {
    if (settings.embedPostgres) return false;
    const { accounts, setBackTo } = await mark(config.databaseUrl, refuseWorkers);
    report.line(`The database is marked as restored: ${accounts} accounts, as of ${setBackTo.toISOString()}.`);
    return true;
  }
  if (!settings.embedPostgres) throw OWN_POSTGRES('restore it with pg_restore, then run this without a file');
  const { storageUrl } = config;
  const { accounts, setBackTo, replaced } = await interruptible((signal) =>
    restoreBackup(file, { settings, storageUrl, encryptionKeyId: keyId, report, signal }),
  );
  report.line(
    `Restored ${accounts} accounts as of ${setBackTo.toISOString()}. Start it with npm start.\n` +
      replaced.map((path) => `What was there is in ${path}: delete it once you need it no longer.\n`).join(''),
  );
  return true;
});
