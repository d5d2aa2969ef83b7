import type { ComponentChildren } from 'preact';
import { Notice } from '../ui/parts.tsx';
import type { Found } from './form.tsx';
import { useTexts } from './language.ts';
import type { Texts } from './texts/en.ts';

/** Where an owner makes an app password, or switches IMAP on: a page, and the words to look for on it. */
interface Place {
  url: string;
  /** menu entries as the provider shows them, in the owner's language where the provider has it */
  choose?: (texts: Texts) => string;
  /** the provider makes app passwords only with this switched on */
  twoStep?: string;
}

const APP_PASSWORDS: Record<string, Place> = {
  gmail: {
    twoStep: 'https://myaccount.google.com/signinoptions/twosv',
    url: 'https://myaccount.google.com/apppasswords',
  },
  icloud: { url: 'https://account.apple.com/', choose: ({ steps }) => steps.icloud },
  yahoo: { url: 'https://login.yahoo.com/account/security', choose: ({ appPassword }) => appPassword },
  aol: { url: 'https://login.aol.com/account/security', choose: ({ appPassword }) => appPassword },
  fastmail: { url: 'https://app.fastmail.com/settings/security', choose: ({ appPassword }) => appPassword },
  zoho: { url: 'https://accounts.zoho.com/home#security/app_password' },
  yandex: { url: 'https://id.yandex.com/security/app-passwords' },
  mailru: { url: 'https://account.mail.ru/user/2-step-auth/passwords' },
  tonline: { url: 'https://www.telekom.de/kundencenter', choose: () => 'Passwort für E-Mail-Programme' },
  att: { url: 'https://www.att.com/acctmgmt/overview', choose: () => 'Secure mail key' },
  qq: { url: 'https://mail.qq.com/', choose: () => '设置 → 账号 → POP3/IMAP/SMTP → 授权码' },
  netease: { url: 'https://mail.163.com/', choose: () => '设置 → POP3/SMTP/IMAP → 授权密码' },
};

/** Providers whose mailboxes refuse IMAP until it is switched on. */
const IMAP_SWITCHES: Record<string, Place> = {
  gmx: { url: 'https://www.gmx.net/', choose: () => 'E-Mail → Einstellungen → POP3/IMAP Abruf' },
  gmx_com: { url: 'https://www.gmx.com/', choose: () => 'Settings → POP3 & IMAP' },
  webde: { url: 'https://web.de/', choose: () => 'E-Mail → Einstellungen → POP3/IMAP Abruf' },
  mailcom: { url: 'https://www.mail.com/', choose: () => 'Settings → POP3 & IMAP' },
  naver: { url: 'https://mail.naver.com/', choose: () => '환경설정 → POP3/IMAP 설정' },
  wp: { url: 'https://poczta.wp.pl/', choose: () => 'Ustawienia → Programy pocztowe' },
  o2: { url: 'https://poczta.o2.pl/', choose: () => 'Ustawienia → Programy pocztowe' },
};

/** What the owner does at the provider before typing a password; nothing where a password is enough. `program`: who asks. */
export function Steps({ found, program }: { found: Found; program: string }) {
  const texts = useTexts();
  const { steps } = texts;
  const code = found.provider ?? '';
  if (found.password_login === 'app_password') {
    const place = APP_PASSWORDS[code];
    return (
      <List title={steps.stepsTitle} help={found.help_url}>
        {place?.twoStep && <Step text={steps.twoStep} url={place.twoStep} />}
        {place && <Step text={steps.open} url={place.url} />}
        {place?.choose && <Step text={steps.choose(place.choose(texts))} />}
        <Step text={steps.create(program)} />
        <Step text={steps.paste} />
      </List>
    );
  }
  const place = IMAP_SWITCHES[code];
  if (!place) return null;
  return (
    <List title={steps.imapTitle} help={found.help_url}>
      <Step text={steps.open} url={place.url} />
      {place.choose && <Step text={steps.choose(place.choose(texts))} />}
      <Step text={steps.switchOn} />
      <Step text={steps.then} />
    </List>
  );
}

function List({ title, help, children }: { title: string; help: string | null; children: ComponentChildren }) {
  const { steps } = useTexts();
  return (
    <Notice tone="warn" title={title}>
      <ol class="steps">{children}</ol>
      {help && <Away url={help}>{steps.help}</Away>}
    </Notice>
  );
}

function Step({ text, url }: { text: string; url?: string }) {
  return (
    <li>
      {text} {url && <Away url={url}>{url.replace(/^https:\/\/(www\.)?|\/$/g, '')}</Away>}
    </li>
  );
}

/** A page of the provider, beside this one. */
function Away({ url, children }: { url: string; children: ComponentChildren }) {
  return (
    <a href={url} target="_blank" rel="noopener noreferrer">
      {children}
    </a>
  );
}
