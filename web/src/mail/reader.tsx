import { useQuery } from '@tanstack/preact-query';
import type { ComponentChildren } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import { BASE, type Email } from '../api/client.ts';
import { Choice } from '../ui/choice.tsx';
import { CopyButton } from '../ui/copy.tsx';
import { bytes, exactDate } from '../ui/format.ts';
import { Loading, Problem } from '../ui/parts.tsx';
import { addresses } from './answer/recipients.ts';
import { asksForImages } from './remote-images.ts';
import { ListFacts, Trust } from './trust.tsx';

type Shown = 'message' | 'text' | 'headers' | 'source';
const SHOWN: { value: Shown; label: string }[] = [
  { value: 'message', label: 'Message' },
  { value: 'text', label: 'Text' },
  { value: 'headers', label: 'Headers' },
  { value: 'source', label: 'Source' },
];
/** Bytes of the raw message that are shown. */
const SOURCE_BYTES = 256_000;

/** What an email says, and to whom; its scripts never run. */
export function Reader({ email, actions }: { email: Email; actions?: ComponentChildren }) {
  const [images, setImages] = useState(false);
  const [shown, setShown] = useState<Shown>('message');
  const url = `${BASE}/api/v1/${email.account_id}/emails/${email.id}`;
  const view = `${url}/view${images ? '?remote_images=true' : ''}`;
  const hasRemote = useMemo(() => asksForImages(email.body), [email.body]);
  return (
    <>
      <div class="card-body stack-s">
        {actions}
        <Facts email={email} url={url} />
        <div class="row">
          <Choice label="Shown" options={SHOWN} value={shown} set={setShown} />
          {shown === 'message' && (
            <a class="button small" href={view} target="_blank" rel="noopener noreferrer">
              Full page
            </a>
          )}
          <a class="button small" href={`${url}/source`} download={`${email.id}.eml`}>
            Raw message
          </a>
          {shown === 'message' && hasRemote && (
            <>
              <button type="button" class="button small" aria-pressed={images} onClick={() => setImages(!images)}>
                {images ? 'Block remote images' : 'Show remote images'}
              </button>
              {!images && (
                <span class="small quiet">
                  Remote images are blocked: they would tell the sender that you read this.
                </span>
              )}
            </>
          )}
        </div>
      </div>
      {shown === 'message' && (
        /* its response lets no script run and nothing load; the sandbox says so twice */
        <iframe
          key={String(images)}
          class="reader"
          style={{ height: heightOf(email) }}
          title="Content of the email"
          sandbox="allow-popups allow-popups-to-escape-sandbox"
          referrerpolicy="no-referrer"
          src={view}
        />
      )}
      {shown === 'text' && <Plain label="Text" text={email.body_plain || 'This email has no text.'} />}
      {shown === 'headers' && (
        <Plain label="Headers" text={email.headers.map(({ name, value }) => `${name}: ${value}`).join('\n')} isCode />
      )}
      {shown === 'source' && <Source id={email.id} url={`${url}/source`} />}
    </>
  );
}

/** Its people, its date, and what else is known of it. */
function Facts({ email, url }: { email: Email; url: string }) {
  return (
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
  );
}

/** Text of an email, as it was sent. */
function Plain({ label, text, isCode = false }: { label: string; text: string; isCode?: boolean }) {
  return (
    <div class="card-body stack-s">
      {isCode && (
        <div class="row">
          <CopyButton value={text} label={label} />
        </div>
      )}
      <pre class={isCode ? '' : 'as-sent'} dir={isCode ? 'ltr' : 'auto'} tabIndex={0} role="group" aria-label={label}>
        {text}
      </pre>
    </div>
  );
}

/** The first bytes of the raw message. */
function Source({ id, url }: { id: string; url: string }) {
  const source = useQuery({
    queryKey: ['source', id],
    queryFn: async () => {
      const response = await fetch(url, { headers: { Range: `bytes=0-${SOURCE_BYTES - 1}` } });
      if (!response.ok) throw new Error('The raw message cannot be read');
      return { text: await response.text(), size: Number(response.headers.get('content-range')?.split('/')[1]) };
    },
  });
  if (source.isPending) return <Loading />;
  if (!source.data) return <Problem error={source.error} />;
  const { text, size } = source.data;
  return (
    <>
      {size > SOURCE_BYTES && (
        <p class="card-body small quiet">
          The first {bytes(SOURCE_BYTES)} of {bytes(size)}; “Raw message” saves all of it.
        </p>
      )}
      <Plain label="Source" text={text} isCode />
    </>
  );
}

/** Height of the frame; its origin is another, so the page cannot read it. Laid out mail is as tall as the window allows. */
function heightOf({ body, body_plain: text }: Email): string | undefined {
  const isLaidOut = body.length >= 6000 || /<(table|img|style|h1)\b/i.test(body);
  const lines = text.split('\n').reduce((sum, line) => sum + Math.max(1, Math.ceil(line.length / 50)), 0);
  return isLaidOut || lines > 15 ? undefined : `${3 + lines * 1.75}rem`;
}
