import { describe, expect, it } from '@jest/globals';
import { viewHeaders, viewPage } from '../../src/api/email-view.ts';

/** An email as a page for a frame; test/live/front/dashboard.test.ts shows in a browser that it does nothing. */

describe('the page of an email', () => {
  const policyOf = (remoteImages: boolean) => viewHeaders({ remoteImages })['Content-Security-Policy'] ?? '';

  it('may do nothing but show itself', () => {
    const policy = policyOf(false);
    expect(policy).toMatch(/^sandbox allow-popups allow-popups-to-escape-sandbox; default-src 'none'/);
    expect(policy).toContain('img-src data:;');
    expect(policy).not.toMatch(/script|allow-same-origin|allow-forms/);
  });

  it('loads pictures from elsewhere only when asked to', () => {
    expect(policyOf(true)).toContain('img-src data: https: http:;');
  });

  it('has the pictures that came with the email in it, and leaves the others as they are', () => {
    const page = viewPage('<img src="cid:logo@x"><img src=cid:other><a href="#">cid:</a>', {
      inline: new Map([['logo@x', 'data:image/png;base64,AA']]),
      remoteImages: false,
    });
    expect(page).toContain('<img src="data:image/png;base64,AA">');
    expect(page).toContain('<img src=cid:other>');
  });

  it('has a picture as often as there is room, however often it is named', () => {
    const url = `data:image/png;base64,${'A'.repeat(8_000_000)}`;
    const page = viewPage('<img src="cid:a">'.repeat(100), { inline: new Map([['a', url]]), remoteImages: false });
    expect(page.length).toBeLessThan(20_000_000);
    expect(page).toContain('<img src="cid:a">');
  });

  it('opens no connection for a link to resources', () => {
    const page = viewPage('<LINK rel="preconnect" href="https://tracker.test">', {
      inline: new Map(),
      remoteImages: false,
    });
    expect(page).not.toMatch(/<link/i);
  });
});
