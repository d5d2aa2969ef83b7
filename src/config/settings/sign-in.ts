import { ConfigError, optionalText, parsedUrl, partsOf, quote, type Setting, text, valueOf } from '../setting.ts';

const LOOPBACK = new Set(['127.0.0.1', '[::1]', 'localhost']);

const OIDC_ISSUER: Setting<string | undefined> = {
  meaning:
    'Identity provider (OpenID Connect) at which people sign in to the dashboard. Register `PUBLIC_URL/sign-in/oidc/callback` ' +
    'there as the redirect address. See [people](security.md#people).',
  values: '`https://` URL of the issuer, `http://` on loopback only',
  default: 'people sign in with an API key, or a password after an invitation',
  read(env, name) {
    const value = valueOf(env, name);
    if (value === undefined) return undefined;
    const { protocol, hostname, search, hash } = parsedUrl(name, value, ['https:', 'http:']);
    if (protocol === 'http:' && !LOOPBACK.has(hostname)) throw new ConfigError(name, 'must begin with https://');
    if (search !== '' || hash !== '') throw new ConfigError(name, 'must have no query');
    return value;
  },
};

/** The groups whose people have a role; `*`: everyone who can sign in. */
function groups(role: string): Setting<string[]> {
  return {
    meaning: `Groups whose members sign in as ${role}. \`*\`: everyone whom the provider lets sign in.`,
    values: 'names, comma-separated',
    default: 'no group',
    read: partsOf,
  };
}

const OIDC_SCOPE: Setting<string> = {
  ...text(
    'Scope that is requested. Some providers send groups only with a scope for them.',
    'scopes',
    'openid profile email',
  ),
  read(env, name) {
    const value = valueOf(env, name) ?? 'openid profile email';
    if (!value.split(/\s+/).includes('openid')) throw new ConfigError(name, `must contain openid, not ${quote(value)}`);
    return value;
  },
};

/** How people sign in to the dashboard. */
export const SIGN_IN = {
  OIDC_ISSUER,
  OIDC_CLIENT_ID: optionalText('Client that is registered at the issuer.', 'text', 'required with `OIDC_ISSUER`'),
  OIDC_CLIENT_SECRET: optionalText('Its secret.', 'text', 'none: a public client'),
  OIDC_SCOPE,
  OIDC_GROUPS_CLAIM: text(
    'Claim of the ID token, or of the userinfo response, that lists the groups.',
    'name',
    'groups',
  ),
  OIDC_ADMIN_GROUPS: groups('admin'),
  OIDC_OPERATOR_GROUPS: groups('operator'),
  OIDC_VIEWER_GROUPS: groups('viewer'),
};
