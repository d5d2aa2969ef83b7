// A process that runs test files. It exits when the connection to its parent closes.
import { register } from 'node:module';
import { register as registerTypeScript } from 'tsx/esm/api';

// as jest's own runner has it: with ten, what awaits an error is often not among them
Error.stackTraceLimit = 100;
process.on('disconnect', () => process.exit());
registerTypeScript();
register('./globals-hook.mjs', import.meta.url);
const { runFile } = await import('./run-file.ts');
process.on('message', ({ path, globalConfig, projectConfig }) => {
  void runFile(path, globalConfig, projectConfig).then((answer) => process.send?.(answer));
});
