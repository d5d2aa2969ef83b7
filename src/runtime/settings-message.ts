/** Announces that settings follow as the first message of the parent process. */
const FOLLOW = 'SETTINGS_FOLLOW';

export type Env = Readonly<Record<string, string>>;

/** The environment of a child that is started before all of its settings are known. */
export function awaitingSettings(env: Env): Env {
  return { ...env, [FOLLOW]: '1' };
}

export function settingsMessage(settings: Env): { settings: Env } {
  return { settings };
}

/** The parts of NodeJS.Process that are used. */
interface Child {
  env: Record<string, string | undefined>;
  once(event: 'message', listener: (message: unknown) => void): unknown;
  once(event: 'disconnect', listener: () => void): unknown;
}

/**
 * Adds the settings that follow to the environment of this process, when it was started with `awaitingSettings`. Until
 * they arrive, it loads its modules. Rejects when the parent exits first.
 */
export async function receiveSettings(child: Child): Promise<void> {
  if (child.env[FOLLOW] === undefined) return;
  // not for the children of this process
  delete child.env[FOLLOW];
  const message = await new Promise<unknown>((resolve, reject) => {
    child.once('message', resolve);
    child.once('disconnect', () => reject(new Error('the process that starts this one has ended')));
  });
  Object.assign(child.env, (message as ReturnType<typeof settingsMessage>).settings);
}
