import type { MicrosoftCloud, OAuthProvider } from '../contract/oauth.ts';

/** Tenants of Microsoft that stand for any organization, whose administrator may remove the app. */
export const MANY_ORGANIZATIONS = ['common', 'organizations'];

/** Tenants of Microsoft that stand for the users of no certain organization, those for the most users first. */
export const SHARED_TENANTS = [...MANY_ORGANIZATIONS, 'consumers'];

/** The endpoints of an authorization server. */
export interface Endpoints {
  /** of RFC 9207; null: unknown, or not the same for all users */
  issuer: string | null;
  /** where owners sign in; null: they cannot */
  authorizationUrl: string | null;
  tokenUrl: string;
  /** null: it has none */
  revocationUrl: string | null;
  /** of RFC 8628; null: it has none for these scopes */
  deviceUrl: string | null;
}

/** What is known of a provider. Sources: the providers' own documents, linked from docs/oauth. */
export interface Preset {
  endpoints: Endpoints;
  /** of a sign-in by the owner */
  scope: string;
  /** of tokens without a user; null: the provider has none */
  applicationScope: string | null;
  /** added to the address where owners sign in */
  parameters: Record<string, string>;
  /** IMAP and SMTP servers */
  hosts: readonly string[];
}

/** Microsoft's clouds: the host of sign-ins, and that of the mail servers and scopes. */
const CLOUDS: Record<MicrosoftCloud, { login: string; scopes: string; application: string; hosts: string[] }> = {
  global: {
    login: 'login.microsoftonline.com',
    scopes: 'outlook.office.com',
    application: 'outlook.office365.com',
    hosts: ['outlook.office365.com', 'smtp.office365.com', 'imap-mail.outlook.com', 'smtp-mail.outlook.com'],
  },
  us_government: {
    login: 'login.microsoftonline.us',
    scopes: 'outlook.office365.us',
    application: 'outlook.office365.us',
    hosts: ['outlook.office365.us', 'smtp.office365.us'],
  },
  china: {
    login: 'login.partner.microsoftonline.cn',
    scopes: 'partner.outlook.cn',
    application: 'partner.outlook.cn',
    hosts: ['partner.outlook.cn', 'smtp.partner.outlook.cn'],
  },
};

function microsoft({ tenant, cloud }: Place): Preset {
  const { login, scopes, application, hosts } = CLOUDS[cloud];
  const base = `https://${login}/${tenant}/oauth2/v2.0`;
  return {
    endpoints: {
      // that of `common` differs for each user's tenant
      issuer: null,
      authorizationUrl: `${base}/authorize`,
      tokenUrl: `${base}/token`,
      revocationUrl: null,
      deviceUrl: `${base}/devicecode`,
    },
    scope: `https://${scopes}/IMAP.AccessAsUser.All https://${scopes}/SMTP.Send offline_access openid profile email`,
    applicationScope: `https://${application}/.default`,
    parameters: {},
    hosts,
  };
}

const GOOGLE: Preset = {
  endpoints: {
    issuer: 'https://accounts.google.com',
    authorizationUrl: 'https://accounts.google.com/o/oauth2/v2/auth',
    tokenUrl: 'https://oauth2.googleapis.com/token',
    revocationUrl: 'https://oauth2.googleapis.com/revoke',
    // none for the scope of mail
    deviceUrl: null,
  },
  scope: 'https://mail.google.com/ openid email',
  applicationScope: null,
  // without them no refresh token is issued, or only the first time
  parameters: { access_type: 'offline', prompt: 'consent' },
  hosts: ['imap.gmail.com', 'smtp.gmail.com'],
};

const YAHOO: Preset = {
  endpoints: {
    issuer: 'https://api.login.yahoo.com',
    authorizationUrl: 'https://api.login.yahoo.com/oauth2/request_auth',
    tokenUrl: 'https://api.login.yahoo.com/oauth2/get_token',
    revocationUrl: null,
    deviceUrl: null,
  },
  scope: 'mail-r mail-w openid email',
  applicationScope: null,
  parameters: {},
  hosts: ['imap.mail.yahoo.com', 'smtp.mail.yahoo.com'],
};

const FASTMAIL: Preset = {
  endpoints: {
    issuer: 'https://api.fastmail.com',
    authorizationUrl: 'https://api.fastmail.com/oauth/authorize',
    tokenUrl: 'https://api.fastmail.com/oauth/refresh',
    revocationUrl: 'https://api.fastmail.com/oauth/revoke',
    deviceUrl: null,
  },
  scope: 'urn:ietf:params:oauth:scope:mail offline_access',
  applicationScope: null,
  parameters: {},
  hosts: ['imap.fastmail.com', 'smtp.fastmail.com'],
};

/** Where a Microsoft app is registered. */
export interface Place {
  tenant: string;
  cloud: MicrosoftCloud;
}

/** What is known of a provider; undefined for `custom`. */
export function presetOf(provider: OAuthProvider, place: Place): Preset | undefined {
  switch (provider) {
    case 'microsoft':
      return microsoft(place);
    case 'google':
      return GOOGLE;
    case 'yahoo':
      return YAHOO;
    case 'fastmail':
      return FASTMAIL;
    case 'custom':
      return undefined;
  }
}
