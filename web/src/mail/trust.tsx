import type { Email, Schemas } from '../api/client.ts';
import { Badge } from '../ui/parts.tsx';

type Authentication = Schemas['Authentication'];
type Check = 'spf' | 'dkim' | 'dmarc';

const MEANINGS: Record<Check, { pass: string; fail: string; softfail?: string; none: string }> = {
  spf: {
    pass: 'sent by a server that the domain of the sender allows',
    fail: 'sent by a server that the domain of the sender does not allow',
    softfail: 'sent by a server that the domain of the sender probably does not allow',
    none: 'the domain does not say which servers may send for it',
  },
  dkim: {
    pass: 'signed, and unchanged since',
    fail: 'the signature does not match: the email was changed, or the signature is forged',
    none: 'not signed',
  },
  dmarc: {
    pass: 'the domain of the sender confirms it',
    fail: 'the domain of the sender disowns it',
    none: 'the domain of the sender has published no rule',
  },
};

function meaningOf(check: Check, result: Authentication[Check]): string {
  const { pass, fail, softfail = fail, none } = MEANINGS[check];
  if (result === 'pass') return pass;
  if (result === 'fail') return fail;
  if (result === 'softfail') return softfail;
  if (result === 'none' || result === 'neutral') return none;
  return result === null ? 'the mail server does not say' : 'it could not be checked';
}

/** Whether the sender is who the email says, in plain words. */
export function Trust({ email: { authentication, from_attendee: from } }: { email: Email }) {
  if (!authentication)
    return (
      <span class="quiet">Not known: the mail server of this mailbox does not say whether the sender is genuine.</span>
    );
  const domain = from.identifier.split('@').at(-1) || 'the sender';
  const isForged = !authentication.from_aligned && authentication.dmarc === 'fail';
  const [tone, text] = authentication.from_aligned
    ? (['good', `It does come from ${domain}`] as const)
    : isForged
      ? (['bad', `It does not come from ${domain}`] as const)
      : (['warn', `Nothing proves that it comes from ${domain}`] as const);
  return (
    <details>
      <summary>
        <Badge tone={tone}>{text}</Badge>
      </summary>
      <ul class="small">
        {(['spf', 'dkim', 'dmarc'] as const).map((check) => (
          <li key={check}>
            <strong>
              {check.toUpperCase()} {authentication[check] ?? '–'}
            </strong>
            : {meaningOf(check, authentication[check])}
          </li>
        ))}
      </ul>
    </details>
  );
}

/** The mailing list of an email, with the ways out of it. */
export function ListFacts({ list }: { list: NonNullable<Email['list']> }) {
  return (
    <span class="row">
      {list.id && <code>{list.id}</code>}
      {list.unsubscribe.map((uri) => (
        <a key={uri} href={uri} target="_blank" rel="noopener noreferrer" title={uri}>
          {uri.startsWith('mailto:') ? 'Unsubscribe by email' : 'Unsubscribe on its page'}
        </a>
      ))}
      {list.unsubscribe_post && <span class="small quiet">one click is enough (RFC 8058)</span>}
    </span>
  );
}
