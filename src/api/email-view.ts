/*
 * Renders a stored email as a page for a frame. The HTML remains unchanged; the response headers restrict it: no scripts,
 * no forms, a separate origin (sandbox), and no remote content unless the reader asks for remote images.
 */

/** Response headers of the page of an email. */
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

/** Hides the placeholders of pictures that the policy blocks. */
const BLOCKED = '\nimg:not([src^="data:" i]) { display: none }';

/** Total characters of the inlined pictures of a page, repetitions included. */
const MAX_INLINED = 16 * 1024 * 1024;

/** Disables `<link rel=preconnect>`, which no policy covers and which would tell the sender that the email is read. */
function withoutLinks(body: string): string {
  return body.replace(/<link\b/gi, '<x-link');
}

const IMAGE = /<img\b[^<>]{0,2000}>/gi;
/** A width or height, as an attribute or a style; no two adjacent `\s*`, which would be quadratic. */
const SIDE = (name: string) => new RegExp(`\\b${name}\\s*(?:=\\s*(?:["']\\s*)?|:\\s*)[01](?:px)?(?=["'\\s;>])`, 'i');
const [WIDTH, HEIGHT] = [SIDE('width'), SIDE('height')];

/** Removes images of one pixel or none, which show nothing and would tell the sender that the email is read. */
function withoutPixels(body: string): string {
  return body.replace(IMAGE, (image) => (WIDTH.test(image) && HEIGHT.test(image) ? '' : image));
}

/** Builds the page of an email; `inline` maps Content-IDs to `data:` URLs of the pictures in the email. */
export function viewPage(
  body: string,
  { inline, remoteImages }: { inline: ReadonlyMap<string, string>; remoteImages: boolean },
): string {
  let room = MAX_INLINED;
  // an email can reference one picture any number of times
  const shown = withoutPixels(withoutLinks(body)).replace(/\bcid:([^"'\s)>]{1,998})/gi, (whole, cid: string) => {
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
