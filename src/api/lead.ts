import type { FastifyReply } from 'fastify';

/**
 * Sends a page that leads on. A redirect would count as one of the provider's form, whose policy names this address alone
 * (CSP `form-action`), and the browser would send no `SameSite=Strict` cookie along.
 */
export function sendLead(reply: FastifyReply, url: string): FastifyReply {
  const attribute = url.replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`);
  return reply
    .headers({ 'Referrer-Policy': 'no-referrer', 'Content-Security-Policy': "default-src 'none'" })
    .type('text/html; charset=utf-8')
    .send(
      `<!doctype html><html lang="en"><meta charset="utf-8"><title>Continue</title>` +
        `<meta http-equiv="refresh" content="0;url=${attribute}"><a href="${attribute}">Continue</a>`,
    );
}
