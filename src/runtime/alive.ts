/** The question of the supervisor, which a frozen process does not answer, and the answer. */
export const ARE_YOU_ALIVE = 'are you alive';
export const ALIVE = 'alive';

/** The parts of NodeJS.Process that are used. */
interface Child {
  on(event: 'message', listener: (message: unknown) => void): unknown;
  send?(message: unknown): unknown;
}

/** Answers the checks of the process that started this one, if it has a channel to it. */
export function answerChecks(child: Child): void {
  if (!child.send) return;
  child.on('message', (message) => void (message === ARE_YOU_ALIVE && child.send?.(ALIVE)));
}
