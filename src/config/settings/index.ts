import type { Env, Setting } from '../setting.ts';
import { ALERTS } from './alerts.ts';
import { API, LIMITS } from './api.ts';
import { DATA } from './data.ts';
import { MAIL, WEBHOOKS } from './mail.ts';
import { OPERATION } from './operation.ts';
import { SIGN_IN } from './sign-in.ts';
import { TEMPORAL } from './temporal.ts';

/** Every setting, under the headings of docs/settings.md; scripts/docs/pages.mjs writes that page. */
export const SETTING_GROUPS = {
  'The API': API,
  'Sign-in of people': SIGN_IN,
  'Limits of calls': LIMITS,
  'Data and keys': DATA,
  Temporal: TEMPORAL,
  Mailboxes: MAIL,
  Webhooks: WEBHOOKS,
  Alerts: ALERTS,
  'Processes, logs, metrics': OPERATION,
};

/** Every setting by its name. */
export const SETTINGS = {
  ...API,
  ...SIGN_IN,
  ...LIMITS,
  ...DATA,
  ...TEMPORAL,
  ...MAIL,
  ...WEBHOOKS,
  ...ALERTS,
  ...OPERATION,
};

type Settings = typeof SETTINGS;
export type SettingName = keyof Settings;
type ValueOf<S> = S extends Setting<infer T> ? T : never;

/** Reads settings by their names from one environment. The function throws ConfigError for a wrong value. */
export function readerOf(env: Env): <N extends SettingName>(name: N) => ValueOf<Settings[N]> {
  return (name) => SETTINGS[name].read(env, name) as never;
}
