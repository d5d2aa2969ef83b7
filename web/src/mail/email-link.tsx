import type { ComponentChildren } from 'preact';
import type { Email } from '../api/client.ts';
import { Time } from '../ui/parts.tsx';
import { Labels } from './email-actions.tsx';
import { Clip, MailLink, personName } from './list.tsx';

/** What a list shows of an email, as a link to it; `children`: what comes first. */
export function EmailLink({ email, children }: { email: Email; children?: ComponentChildren }) {
  return (
    <MailLink href={`/mailboxes/${email.account_id}/emails/${email.id}`} unread={email.is_unread}>
      {children}
      <span class="who">
        <bdi>{personName(email.from_attendee)}</bdi>
      </span>
      <span class="what">
        <Labels of={email} />
        <bdi>{email.subject || '(no subject)'}</bdi> <bdi class="preview">{email.snippet}</bdi>
      </span>
      <span class="when">
        {email.has_attachments && <Clip />}
        <Time at={email.date} />
      </span>
    </MailLink>
  );
}
