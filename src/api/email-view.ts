/*
 * A stored email as a page for a frame. Its HTML stays what it is; what it may do is decided by the headers: no scripts, no
 * forms, an origin of its own (sandbox), and nothing is loaded unless the reader asks for remote images.
 */

/** The headers of such a page. */
export function viewHeaders({ remoteImages }: { remoteImages: boolean }): Record<string, string> {
  return {
    'Content-Security-Policy': [
      'sandbox allow-popups allow-popups-to-escape-sandbox',
      "default-src 'none'",
      "style-src 'unsafe-inline'",
      `img-src data:${remoteImages ? ' https: http:' : ''}`,
      "base-uri 'none'",
      "form-action 'none'",
      "frame-ancestors 'self'",
    ].join('; '),
    'Referrer-Policy': 'no-referrer',
    'X-DNS-Prefetch-Control': 'off',
    'Cross-Origin-Resource-Policy': 'same-origin',
  };
}

/** No frame of a broken picture where none is loaded. */
const BLOCKED = '\nimg:not([src^="data:" i]) { display: none }';

/** Characters of the pictures in one page, each as often as it is named. */
const MAX_INLINED = 16 * 1024 * 1024;

/** `<link rel=preconnect>` would tell the sender that the email is read: no policy covers it. */
function withoutLinks(body: string): string {
  return body.replace(/<link\b/gi, '<x-link');
}

/** The page; `inline` has the pictures that came with the email, as `data:` URLs by Content-ID. */
export function viewPage(
  body: string,
  { inline, remoteImages }: { inline: ReadonlyMap<string, string>; remoteImages: boolean },
): string {
  let room = MAX_INLINED;
  // a picture may be named as often as the sender likes
  const shown = withoutLinks(body).replace(/\bcid:([^"'\s)>]{1,998})/gi, (whole, cid: string) => {
    const url = inline.get(decode(cid));
    if (url === undefined || url.length > room) return whole;
    room -= url.length;
    return url;
  });
  return `<!doctype html><html><head><meta charset="utf-8"><meta name="referrer" content="no-referrer">
<base target="_blank"><title>Email</title><style>
:root { color-scheme: light; background: #fff; color: #1a1a1a; font: 15px/1.5 system-ui, sans-serif }
body { margin: 16px; overflow-wrap: anywhere } img { max-width: 100%; height: auto } pre { white-space: pre-wrap }
iframe, object, embed, audio, video { display: none }${remoteImages ? '' : BLOCKED}
</style></head><body>${shown}</body></html>`;
}

function decode(cid: string): string {
  try {
    return decodeURIComponent(cid);
  } catch {
    return cid;
  }
}
