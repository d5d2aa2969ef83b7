import type { ServerSettings } from '../contract/account.ts';
import type { LoginHelp, ProviderCode } from '../contract/auth-link.ts';

/** A server that discovery found. `user` is the login name, where it is not the address. */
export interface ServerAddress extends Omit<ServerSettings, 'user'> {
  user?: string;
}

/** A provider whose servers are known. */
export interface Provider {
  imap: ServerAddress;
  smtp: ServerAddress;
  /** what a program shows steps for; most providers need none */
  code?: ProviderCode;
  /** helps a user whose login was refused */
  hint?: string;
}

const APP_PASSWORD = 'this provider takes an app password, not the password of the account';
const IMAP_FIRST = 'IMAP must first be switched on in the settings of the mailbox, on the web pages of the provider';
const NO_PASSWORDS =
  'Microsoft no longer accepts passwords for Outlook.com, Hotmail and most Microsoft 365 mailboxes: they need a sign-in at ' +
  'Microsoft (OAuth 2.0)';

const ssl = (host: string, port: number): ServerAddress => ({ host, port, encryption: 'SSL' });
const starttls = (host: string, port = 587): ServerAddress => ({ host, port, encryption: 'STARTTLS' });
/** A provider with IMAP on 993 and SMTP on 465, the ports that RFC 8314 recommends. */
const both = (imap: string, smtp: string, hint?: string): Provider => ({
  imap: ssl(imap, 993),
  smtp: ssl(smtp, 465),
  ...(hint ? { hint } : {}),
});
/** A provider with IMAP on 993, whose SMTP server listens on 587 only. */
const submission = (imap: string, smtp: string, hint?: string): Provider => ({
  ...both(imap, smtp, hint),
  smtp: starttls(smtp),
});

/** A provider with a code. */
const coded = (code: ProviderCode, provider: Provider): Provider => ({ ...provider, code });

const GMAIL = coded('gmail', both('imap.gmail.com', 'smtp.gmail.com', APP_PASSWORD));
const ICLOUD = coded('icloud', submission('imap.mail.me.com', 'smtp.mail.me.com', APP_PASSWORD));
const YAHOO = coded('yahoo', both('imap.mail.yahoo.com', 'smtp.mail.yahoo.com', APP_PASSWORD));
const AOL = coded('aol', both('imap.aol.com', 'smtp.aol.com', APP_PASSWORD));
const FASTMAIL = coded('fastmail', both('imap.fastmail.com', 'smtp.fastmail.com', APP_PASSWORD));
const OUTLOOK = coded('microsoft', submission('outlook.office365.com', 'smtp-mail.outlook.com', NO_PASSWORDS));
const MICROSOFT_365 = coded('microsoft', submission('outlook.office365.com', 'smtp.office365.com', NO_PASSWORDS));
const YANDEX = coded('yandex', both('imap.yandex.com', 'smtp.yandex.com', APP_PASSWORD));
const MAIL_RU = coded('mailru', both('imap.mail.ru', 'smtp.mail.ru', APP_PASSWORD));

/** Domains of addresses, each list separated by blanks. Sources: the providers' own help pages and Thunderbird's ISPDB. */
const BY_DOMAIN: [domains: string, provider: Provider][] = [
  ['gmail.com googlemail.com', GMAIL],
  ['icloud.com me.com mac.com', ICLOUD],
  [
    'yahoo.com ymail.com rocketmail.com myyahoo.com yahoo.ca yahoo.co.id yahoo.co.in yahoo.co.uk yahoo.com.ar ' +
      'yahoo.com.au yahoo.com.br yahoo.com.hk yahoo.com.mx yahoo.com.ph yahoo.com.sg yahoo.com.tr yahoo.com.tw ' +
      'yahoo.com.vn yahoo.de yahoo.dk yahoo.es yahoo.fr yahoo.gr yahoo.ie yahoo.in yahoo.it yahoo.nl yahoo.no ' +
      'yahoo.pl yahoo.ro yahoo.se',
    YAHOO,
  ],
  ['yahoo.co.jp', both('imap.mail.yahoo.co.jp', 'smtp.mail.yahoo.co.jp')],
  ['aol.com aol.de aol.fr aol.co.uk aol.it aim.com', AOL],
  ['verizon.net', coded('aol', both('imap.aol.com', 'smtp.verizon.net', APP_PASSWORD))],
  ['fastmail.com fastmail.fm fastmail.net fastmail.org fastmail.de fastmail.co.uk fastmail.jp sent.com', FASTMAIL],
  ['gmx.de gmx.net gmx.at gmx.ch gmx.li gmx.eu', coded('gmx', both('imap.gmx.net', 'mail.gmx.net', IMAP_FIRST))],
  ['gmx.com gmx.us gmx.co.uk gmx.fr gmx.es gmx.it', coded('gmx_com', both('imap.gmx.com', 'mail.gmx.com', IMAP_FIRST))],
  ['web.de', coded('webde', submission('imap.web.de', 'smtp.web.de', IMAP_FIRST))],
  [
    'mail.com email.com usa.com post.com consultant.com',
    coded('mailcom', both('imap.mail.com', 'smtp.mail.com', IMAP_FIRST)),
  ],
  ['zoho.com zohomail.com', coded('zoho', both('imap.zoho.com', 'smtp.zoho.com', APP_PASSWORD))],
  ['zoho.eu zohomail.eu', coded('zoho', both('imap.zoho.eu', 'smtp.zoho.eu', APP_PASSWORD))],
  ['zoho.in zohomail.in', coded('zoho', both('imap.zoho.in', 'smtp.zoho.in', APP_PASSWORD))],
  ['mail.ru inbox.ru list.ru bk.ru internet.ru', MAIL_RU],
  ['yandex.ru yandex.com yandex.by yandex.kz yandex.ua ya.ru narod.ru', YANDEX],
  ['rambler.ru', both('imap.rambler.ru', 'smtp.rambler.ru')],
  ['t-online.de magenta.de', coded('tonline', both('secureimap.t-online.de', 'securesmtp.t-online.de', APP_PASSWORD))],
  ['freenet.de', submission('mx.freenet.de', 'mx.freenet.de')],
  ['posteo.de posteo.net posteo.org posteo.eu', both('posteo.de', 'posteo.de')],
  ['mailbox.org', both('imap.mailbox.org', 'smtp.mailbox.org')],
  ['runbox.com', both('mail.runbox.com', 'mail.runbox.com')],
  ['bluewin.ch', both('imaps.bluewin.ch', 'smtpauths.bluewin.ch')],
  ['orange.fr wanadoo.fr', both('imap.orange.fr', 'smtp.orange.fr')],
  ['laposte.net', both('imap.laposte.net', 'smtp.laposte.net')],
  ['free.fr', both('imap.free.fr', 'smtp.free.fr')],
  ['sfr.fr neuf.fr', both('imap.sfr.fr', 'smtp.sfr.fr')],
  ['libero.it', both('imapmail.libero.it', 'smtp.libero.it')],
  ['virgilio.it', both('in.virgilio.it', 'out.virgilio.it')],
  ['seznam.cz email.cz', both('imap.seznam.cz', 'smtp.seznam.cz')],
  ['wp.pl', coded('wp', both('imap.wp.pl', 'smtp.wp.pl', IMAP_FIRST))],
  ['o2.pl', coded('o2', both('poczta.o2.pl', 'poczta.o2.pl', IMAP_FIRST))],
  ['interia.pl', both('poczta.interia.pl', 'poczta.interia.pl')],
  ['comcast.net xfinity.com', submission('imap.comcast.net', 'smtp.comcast.net')],
  ['att.net sbcglobal.net bellsouth.net', coded('att', both('imap.mail.att.net', 'smtp.mail.att.net', APP_PASSWORD))],
  ['qq.com foxmail.com', coded('qq', both('imap.qq.com', 'smtp.qq.com', APP_PASSWORD))],
  ['163.com', coded('netease', both('imap.163.com', 'smtp.163.com', APP_PASSWORD))],
  ['126.com', coded('netease', both('imap.126.com', 'smtp.126.com', APP_PASSWORD))],
  ['naver.com', coded('naver', both('imap.naver.com', 'smtp.naver.com', IMAP_FIRST))],
  [
    'outlook.com hotmail.com live.com msn.com outlook.de outlook.fr outlook.es outlook.it hotmail.co.uk hotmail.de ' +
      'hotmail.fr hotmail.it hotmail.es live.co.uk live.de live.fr live.nl live.it',
    OUTLOOK,
  ],
];

/** Suffixes of the names of mail exchangers: they reveal the provider of a custom domain. */
const BY_EXCHANGER: [suffix: string, provider: Provider][] = [
  ['google.com', GMAIL],
  ['googlemail.com', GMAIL],
  ['mail.icloud.com', ICLOUD],
  ['yahoodns.net', YAHOO],
  ['messagingengine.com', FASTMAIL],
  ['mail.protection.outlook.com', MICROSOFT_365],
  ['zoho.com', coded('zoho', both('imappro.zoho.com', 'smtppro.zoho.com', APP_PASSWORD))],
  ['zoho.eu', coded('zoho', both('imappro.zoho.eu', 'smtppro.zoho.eu', APP_PASSWORD))],
  ['zoho.in', coded('zoho', both('imappro.zoho.in', 'smtppro.zoho.in', APP_PASSWORD))],
  ['mx.yandex.net', YANDEX],
  ['emx.mail.ru', MAIL_RU],
  ['kundenserver.de', both('imap.ionos.de', 'smtp.ionos.de')],
  ['perfora.net', both('imap.ionos.com', 'smtp.ionos.com')],
  ['rzone.de', both('imap.strato.de', 'smtp.strato.de')],
  ['mail.ovh.net', both('ssl0.ovh.net', 'ssl0.ovh.net')],
  ['mail.gandi.net', both('mail.gandi.net', 'mail.gandi.net')],
  ['hostinger.com', both('imap.hostinger.com', 'smtp.hostinger.com')],
  ['privateemail.com', both('mail.privateemail.com', 'mail.privateemail.com')],
  ['emailsrvr.com', both('secure.emailsrvr.com', 'secure.emailsrvr.com')],
  ['secureserver.net', both('imap.secureserver.net', 'smtpout.secureserver.net')],
  ['migadu.com', both('imap.migadu.com', 'smtp.migadu.com')],
  ['purelymail.com', both('imap.purelymail.com', 'smtp.purelymail.com')],
  ['mailbox.org', both('imap.mailbox.org', 'smtp.mailbox.org')],
];

/** A provider that has no IMAP servers, and why. */
export interface Closed {
  code: ProviderCode;
  reason: string;
}

/** Those providers: domains of addresses, suffixes of mail exchangers. */
const WITHOUT_IMAP: [domains: string, exchanger: string, closed: Closed][] = [
  [
    'proton.me protonmail.com protonmail.ch pm.me',
    'protonmail.ch',
    { code: 'proton', reason: 'Proton Mail encrypts mailboxes so that no other service can read them over IMAP' },
  ],
  [
    'tuta.com tuta.io tutanota.com tutanota.de tutamail.com keemail.me',
    'tutanota.de',
    { code: 'tuta', reason: 'Tuta encrypts mailboxes so that no other service can read them over IMAP' },
  ],
];

/** Why mailboxes with addresses at that domain (lower case) have no IMAP server; undefined for most. */
export function closedDomain(domain: string): Closed | undefined {
  return WITHOUT_IMAP.find(([domains]) => domains.split(' ').includes(domain))?.[2];
}

/** Why domains with that mail exchanger (a host name) have no IMAP server; undefined for most. */
export function closedExchanger(exchanger: string): Closed | undefined {
  const name = exchanger.toLowerCase().replace(/\.$/, '');
  return WITHOUT_IMAP.find(([, suffix]) => name === suffix || name.endsWith(`.${suffix}`))?.[2];
}

const DOMAINS = new Map(BY_DOMAIN.flatMap(([domains, provider]) => domains.split(' ').map((name) => [name, provider])));

/** The provider of addresses at that domain (lower case). */
export function providerOfDomain(domain: string): Provider | undefined {
  return DOMAINS.get(domain);
}

/** The provider that receives mail at that mail exchanger (a host name). */
export function providerOfExchanger(exchanger: string): Provider | undefined {
  const name = exchanger.toLowerCase().replace(/\.$/, '');
  return BY_EXCHANGER.find(([suffix]) => name === suffix || name.endsWith(`.${suffix}`))?.[1];
}

/** The provider with that server. */
function providerOfHost(host: string): Provider | undefined {
  const name = host.toLowerCase();
  const providers = [...BY_DOMAIN, ...BY_EXCHANGER].map(([, provider]) => provider);
  return providers.find(({ imap, smtp }) => imap.host === name || smtp.host === name);
}

/** A text that helps a user whose login that server refused; undefined for most servers. */
export function hintOfHost(host: string): string | undefined {
  return providerOfHost(host)?.hint;
}

/** What an app password is made of; providers show it in groups. */
const IN_GROUPS = /^[a-z0-9-]+$/i;

/** A password for that host, without the blanks that a provider shows in its app passwords, which are no part of them. */
export function withoutBlanks(password: string, host: string): string {
  const joined = password.replace(/\s+/g, '');
  return providerOfHost(host)?.hint === APP_PASSWORD && IN_GROUPS.test(joined) ? joined : password;
}

/** The providers' own pages about app passwords, and about the alternatives; by IMAP host. */
const HELP: Readonly<Record<string, string>> = {
  'imap.gmail.com': 'https://support.google.com/accounts/answer/185833',
  'imap.mail.me.com': 'https://support.apple.com/102654',
  'imap.mail.yahoo.com': 'https://help.yahoo.com/kb/SLN15241.html',
  'imap.aol.com': 'https://help.aol.com/articles/Create-and-manage-app-password',
  'imap.fastmail.com': 'https://www.fastmail.help/hc/en-us/articles/360058752854',
  'imap.zoho.com': 'https://accounts.zoho.com/home#security/app_password',
  'imap.zoho.eu': 'https://accounts.zoho.eu/home#security/app_password',
  'imap.zoho.in': 'https://accounts.zoho.in/home#security/app_password',
  'imap.yandex.com': 'https://yandex.com/support/id/authorization/app-passwords.html',
  'imap.mail.ru': 'https://help.mail.ru/mail/security/protection/external',
};

/** What a login on that IMAP host takes, with a hint for the owner; most hosts take a password and have no hint. */
export function helpFor(host: string | undefined): LoginHelp {
  const { hint = null, code = null } = (host === undefined ? undefined : providerOfHost(host)) ?? {};
  const passwordLogin = hint === NO_PASSWORDS ? 'none' : hint === APP_PASSWORD ? 'app_password' : 'password';
  const url = hint === null || host === undefined ? undefined : HELP[host.toLowerCase()];
  return { hint, help_url: url ?? null, password_login: passwordLogin, provider: code };
}
