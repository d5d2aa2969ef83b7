import Type from 'typebox';
import { Nullable } from './common.ts';

/** The settings that this installation runs with. */
export const Settings = Type.Object(
  {
    object: Type.Literal('Settings'),
    temporal_ui_url: Nullable(Type.String({ description: 'where the runs of workflows are shown' })),
    temporal_namespace: Type.String(),
    data: Type.Array(
      Type.Object({
        name: Type.String({ description: 'the environment variable' }),
        value: Type.String({ description: 'of a secret only whether it is set' }),
        is_default: Type.Boolean(),
        is_secret: Type.Boolean(),
      }),
    ),
  },
  { $id: 'Settings' },
);
export type Settings = Type.Static<typeof Settings>;
