import Type from 'typebox';
import { Nullable, ObjectName } from './common.ts';

/** The API process is alive. */
export const Health = Type.Object(
  {
    status: Type.Literal('ok', { description: 'always `ok`' }),
    version: Type.String({ description: 'version of the API process, such as `1.2.3`' }),
  },
  { $id: 'Health', description: 'the API process is alive' },
);

/** The effective settings of the installation. */
export const Settings = Type.Object(
  {
    object: ObjectName('Settings'),
    temporal_ui_url: Nullable(Type.String({ description: 'URL of the Temporal UI; null: not set' })),
    temporal_namespace: Type.String({ description: 'namespace of the workflows in Temporal' }),
    data: Type.Array(
      Type.Object({
        name: Type.String({ description: 'name of the environment variable' }),
        value: Type.String({ description: 'secrets show only whether they are set' }),
        is_default: Type.Boolean({ description: 'whether it is not set' }),
        is_secret: Type.Boolean({ description: 'whether its value is hidden' }),
      }),
      { description: 'the settings' },
    ),
  },
  { $id: 'Settings', description: 'the effective settings of this API process' },
);
export type Settings = Type.Static<typeof Settings>;
