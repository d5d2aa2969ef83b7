import {
  apiKey,
  ConfigError,
  endpoint,
  integer,
  optionalFlag,
  optionalText,
  parsedUrl,
  pem,
  quote,
  required,
  type Setting,
  text,
  valueOf,
} from '../setting.ts';

const TEMPORAL_ADDRESS: Setting<string> = {
  meaning: 'Temporal server 1.28 or later.',
  values: '`host:port`',
  default: 'required; with `npm start`: an embedded one in `DATA_DIR`',
  read(env, name) {
    const value = required(env, name, 'host:port of Temporal (npm start runs its own server)');
    if (!/^[^\s/]+:\d{1,5}$/.test(value)) throw new ConfigError(name, `must be host:port, not ${quote(value)}`);
    return value;
  },
};

const TEMPORAL_UI_ORIGIN: Setting<string | undefined> = {
  meaning:
    'Origin of the Temporal UI for which the API decodes histories at `/temporal/codec`. Set it together with ' +
    '`TEMPORAL_CODEC_TOKEN`, or neither. The UI of `npm start` needs neither.',
  values: 'URL without a path',
  default: 'histories are not decoded',
  read(env, name) {
    const value = valueOf(env, name);
    if (value === undefined) return undefined;
    const { origin, href } = parsedUrl(name, value, ['http:', 'https:']);
    if (href !== `${origin}/`) throw new ConfigError(name, 'must have no path: https://temporal.example.com');
    return origin;
  },
};

/** The server, its TLS, and its UI. */
export const TEMPORAL = {
  TEMPORAL_ADDRESS,
  TEMPORAL_NAMESPACE: text('Namespace of the workflows. Give it a retention of 7 days.', 'text', 'default'),
  TEMPORAL_API_KEY: optionalText('API key of a Temporal server that requires one.', 'text'),
  TEMPORAL_TLS: optionalFlag(
    'Whether the connection uses TLS.',
    '`true` if an API key or another `TEMPORAL_TLS_…` is set, else `false`',
  ),
  TEMPORAL_TLS_SERVER_NAME: optionalText(
    'Name in the certificate of the server, if it is not that of its address.',
    'host name',
  ),
  TEMPORAL_TLS_SERVER_CA_CERT_PATH: pem('Certificate authority of the server, if the system does not know it.'),
  TEMPORAL_TLS_CLIENT_CERT_PATH: pem('Client certificate of mutual TLS. It needs the key below.'),
  TEMPORAL_TLS_CLIENT_KEY_PATH: pem('Key of the client certificate.'),
  TEMPORAL_UI_URL: endpoint(
    'Address of the Temporal UI for people: the dashboard links workflows there.',
    'that of `npm start`, else `TEMPORAL_UI_ORIGIN`',
  ),
  TEMPORAL_UI_ORIGIN,
  TEMPORAL_CODEC_TOKEN: apiKey(
    'Token that requests to `/temporal/codec` bear (`Bearer`, or as the password of `Basic`). Its holder reads histories.',
    'histories are not decoded',
  ),
  TEMPORAL_UI_PORT: integer(
    '`npm start`: port of the UI of the embedded Temporal. If it is taken, the next free one.',
    'port',
    8233,
    [1, 65_535],
  ),
};
