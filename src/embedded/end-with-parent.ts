/*
 * Loaded by `node --import` into the processes that `npm start` runs. Their channel to the parent closes when the
 * parent is gone, however it went: then they stop as on SIGTERM, and at the latest after 6 s.
 */
import { isMainThread } from 'node:worker_threads';

if (isMainThread && process.channel !== undefined) {
  process.once('disconnect', () => {
    setTimeout(() => process.exit(1), 6000).unref();
    process.kill(process.pid, 'SIGTERM');
  });
  // to listen must not keep a process alive that has nothing left to do
  process.channel?.unref();
}
