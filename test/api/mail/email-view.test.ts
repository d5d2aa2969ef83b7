import { describe, expect, it } from '@jest/globals';
import { viewHeaders, viewPage } from '../../../src/api/email-view.ts';

/** An email as a page for a frame; test/live/front/dashboard.test.ts shows in a browser that it does nothing. */

describe('the page of an email', () => {
  const policyOf = (remoteImages: boolean) => viewHeaders({ remoteImages })['Content-Security-Policy'] ?? '';

  it('blocks scripts, forms and navigation', () => {
    const policy = policyOf(false);
    expect(policy).toMatch(/^sandbox allow-popups allow-popups-to-escape-sandbox; default-src 'none'/);
    expect(policy).toContain('img-src data:;');
    expect(policy).not.toMatch(/script|allow-same-origin|allow-forms/);
  });

  it('loads remote pictures only on request', () => {
    expect(policyOf(true)).toContain('img-src data: https: http:;');
  });

  it('inlines the pictures of the email, and leaves other references unchanged', () => {
    const page = viewPage('<img src="cid:logo@x"><img src=cid:other><a href="#">cid:</a>', {
      inline: new Map([['logo@x', 'data:image/png;base64,AA']]),
      remoteImages: false,
    });
    expect(page).toContain('<img src="data:image/png;base64,AA">');
    expect(page).toContain('<img src=cid:other>');
  });

  it('limits the total size of repeated pictures', () => {
    const url = `data:image/png;base64,${'A'.repeat(8_000_000)}`;
    const page = viewPage('<img src="cid:a">'.repeat(100), { inline: new Map([['a', url]]), remoteImages: false });
    expect(page.length).toBeLessThan(20_000_000);
    expect(page).toContain('<img src="cid:a">');
  });

  it('opens no connection for <link> elements', () => {
    const page = viewPage('<LINK rel="preconnect" href="https://tracker.test">', {
      inline: new Map(),
      remoteImages: false,
    });
    expect(page).not.toMatch(/<link/i);
  });
});
