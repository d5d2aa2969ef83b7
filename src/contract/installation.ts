import Type from 'typebox';
import { Nullable } from './common.ts';

/** The API process is alive. */
export const Health = Type.Object(
  {
    status: Type.Literal('ok'),
    version: Type.String({ description: 'version of the API process, such as `1.2.3`' }),
  },
  { $id: 'Health' },
);

/** The effective settings of the installation. */
export const Settings = Type.Object(
  {
    object: Type.Literal('Settings'),
    temporal_ui_url: Nullable(Type.String({ description: 'URL of the Temporal UI; null: not set' })),
    temporal_namespace: Type.String(),
    data: Type.Array(
      Type.Object({
        name: Type.String({ description: 'name of the environment variable' }),
        value: Type.String({ description: 'secrets show only whether they are set' }),
        is_default: Type.Boolean(),
        is_secret: Type.Boolean(),
      }),
    ),
  },
  { $id: 'Settings' },
);
export type Settings = Type.Static<typeof Settings>;
