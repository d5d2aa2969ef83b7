/*
 * `npm run backup -- FILE`: writes what `npm start` stores to one file, while it runs or not. The encryption key is not in it.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { checkStorageUrl, makeBackup } from './src/embedded/backup/backup.ts';
import { interruptible, onDataDir, unlessInterrupted } from './src/embedded/backup/data-command.ts';
import { dataConfig, OWN_POSTGRES, runDataCommand } from './src/embedded/backup/data-config.ts';
import { refuseUnfinishedRestore } from './src/embedded/backup/swap.ts';
import { StartFailure } from './src/embedded/failure.ts';
import { createSecrets } from './src/security/secrets.ts';
import { codecKeys } from './src/temporal/connect.ts';

await runDataCommand('Usage: npm run backup -- FILE', process.env, async ({ args, env, report }) => {
  const [file] = args;
  if (file === undefined || args.length !== 1) return false;
  const { settings, config, runningUrl, keyFile, startedStorageUrl } = dataConfig(env);
  const { keyId } = createSecrets(codecKeys(config));
  if (!settings.embedPostgres) throw OWN_POSTGRES('back it up with pg_dump');
  const { dataDir, storageUrl } = config;
  refuseUnfinishedRestore(dataDir);
  if (!existsSync(join(dataDir, 'postgres-password'))) throw new StartFailure(`${dataDir} holds nothing to back up.`);
  checkStorageUrl(storageUrl, startedStorageUrl);
  await interruptible(async (signal) => {
    const source = { dataDir, storageUrl, encryptionKeyId: keyId, signal };
    const make = (databaseUrl: string) =>
      report.during('Backing up', () => makeBackup(file, { ...source, databaseUrl }));
    if (runningUrl !== undefined) await make(runningUrl);
    else {
      await onDataDir(settings, report, async ({ startPostgres }) =>
        make(await unlessInterrupted(signal, startPostgres())),
      );
    }
  });
  const apiKeyFile = settings.apiKeyIsOurs ? join(dataDir, 'bootstrap-api-key') : 'BOOTSTRAP_API_KEY';
  const bucket = storageUrl.startsWith('file:') ? '' : `\nMail and attachments are in ${storageUrl}: copy that too.`;
  report.line(
    `${file} is complete. It opens only with the encryption key ${keyId} (${keyFile}), which is not in it: ` +
      `store that apart from it, together with the API key of the start (${apiKeyFile}).${bucket}`,
  );
  return true;
});
