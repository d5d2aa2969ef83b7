import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { BASE, type Email } from '../api/client.ts';
import { bytes, exactDate } from '../ui/format.ts';
import { addresses } from './list.tsx';
import { ListFacts, Trust } from './trust.tsx';

/** What an email says, and to whom; its scripts never run. */
export function Reader({ email, actions }: { email: Email; actions?: ComponentChildren }) {
  const [images, setImages] = useState(false);
  const url = `${BASE}/api/v1/${email.account_id}/emails/${email.id}`;
  const asksForImages =
    /(?:src|srcset|background)\s*=\s*["']?\s*(?:https?:)?\/\/|url\(\s*["']?\s*(?:https?:)?\/\//i.test(email.body);
  return (
    <>
      <div class="card-body stack-s">
        {actions}
        <dl class="facts">
          <dt>From</dt>
          <dd>{addresses([email.from_attendee])}</dd>
          <dt>To</dt>
          <dd>{addresses(email.to_attendees) || '–'}</dd>
          {email.cc_attendees.length > 0 && (
            <>
              <dt>Cc</dt>
              <dd>{addresses(email.cc_attendees)}</dd>
            </>
          )}
          <dt>Date</dt>
          <dd>{exactDate(email.date)}</dd>
          {!email.is_echo && (
            <>
              <dt>Sender</dt>
              <dd>
                <Trust email={email} />
              </dd>
            </>
          )}
          {email.list && (
            <>
              <dt>List</dt>
              <dd>
                <ListFacts list={email.list} />
              </dd>
            </>
          )}
          {email.attachments.length > 0 && (
            <>
              <dt>Files</dt>
              <dd class="row">
                {email.attachments.map((file) => (
                  <a key={file.id} href={`${url}/attachments/${file.id}`} download={file.name}>
                    {file.name || 'unnamed'} <span class="quiet small">{bytes(file.size)}</span>
                  </a>
                ))}
              </dd>
            </>
          )}
        </dl>
        <div class="row">
          <a class="button small" href={`${url}/source`} download={`${email.id}.eml`}>
            Raw message
          </a>
          {asksForImages && (
            <button type="button" class="button small" aria-pressed={images} onClick={() => setImages(!images)}>
              {images ? 'Block remote images' : 'Show remote images'}
            </button>
          )}
          {asksForImages && !images && (
            <span class="small quiet">Remote images are blocked: they would tell the sender that you read this.</span>
          )}
        </div>
      </div>
      {/* its response lets no script run and nothing load; the sandbox says so twice */}
      <iframe
        key={String(images)}
        class="reader"
        style={{ height: heightOf(email) }}
        title="Content of the email"
        sandbox="allow-popups allow-popups-to-escape-sandbox"
        referrerpolicy="no-referrer"
        src={`${url}/view${images ? '?remote_images=true' : ''}`}
      />
    </>
  );
}

/** Height of the frame; its origin is another, so the page cannot read it. Laid out mail is as tall as the window allows. */
function heightOf({ body, body_plain: text }: Email): string | undefined {
  const isLaidOut = body.length >= 6000 || /<(table|img|style|h1)\b/i.test(body);
  const lines = text.split('\n').reduce((sum, line) => sum + Math.max(1, Math.ceil(line.length / 50)), 0);
  return isLaidOut || lines > 15 ? undefined : `${3 + lines * 1.75}rem`;
}
