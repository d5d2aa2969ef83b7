import type { AlertMessage } from '../contract/overview.ts';
import { alertSubject } from './text.ts';

/** A mail about problems: plain text, base64. The Message-ID is the same at each attempt. */
export function alertMail({
  id,
  body,
  from,
  to,
}: {
  id: string;
  body: AlertMessage;
  from: string;
  to: string[];
}): Buffer {
  const text = Buffer.from(`${body.text}\n`).toString('base64');
  const headers = {
    From: from,
    To: to.join(', '),
    Subject: alertSubject(body),
    Date: new Date(body.created_at).toUTCString().replace('GMT', '+0000'),
    'Message-ID': `<${id}@${from.slice(from.lastIndexOf('@') + 1)}>`,
    // RFC 3834: vacation programs do not answer
    'Auto-Submitted': 'auto-generated',
    'MIME-Version': '1.0',
    'Content-Type': 'text/plain; charset=utf-8',
    'Content-Transfer-Encoding': 'base64',
  };
  const head = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  return Buffer.from([...head, '', ...(text.match(/.{1,76}/g) ?? []), ''].join('\r\n'));
}
