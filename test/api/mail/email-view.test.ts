import { describe, expect, it } from '@jest/globals';
import { viewHeaders, viewPage } from '../../../src/api/email-view.ts';
import { asksForImages } from '../../../web/src/mail/remote-images.ts';
import { expectCpuBelow } from '../../helpers/assert/cpu.ts';

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

  it.each([
    '<img src="https://tracker.test/p" width="1" height="1">',
    '<IMG WIDTH=1 HEIGHT=0 src=https://tracker.test/p>',
    `<img src='https://tracker.test/p' style='height: 1px; width:1px'/>`,
    `<img src="https://tracker.test/p" width = " 1" height= '0'>`,
  ])('loads no picture of one pixel: %s', (pixel) => {
    const page = viewPage(`a${pixel}b`, { inline: new Map(), remoteImages: true });
    expect(page).toContain('<body>ab</body>');
  });

  it('keeps pictures that can be seen, and ends soon on what is no picture', () => {
    const seen = '<img src="https://a.test/p" width="100" height="1"><img src="https://a.test/q?width=1" height=12>';
    expect(viewPage(seen, { inline: new Map(), remoteImages: true })).toContain(seen);
    const began = performance.now();
    viewPage('<img '.repeat(400_000), { inline: new Map(), remoteImages: true });
    expect(performance.now() - began).toBeLessThan(2_000);
  });

  it('takes little time for pictures with long runs of blanks', () => {
    const picture = `<img ${`width=${' '.repeat(1_900)}`}x>`;
    expectCpuBelow(2_000, () => viewPage(picture.repeat(4_000), { inline: new Map(), remoteImages: true }));
  });

  it('opens no connection for <link> elements', () => {
    const page = viewPage('<LINK rel="preconnect" href="https://tracker.test">', {
      inline: new Map(),
      remoteImages: false,
    });
    expect(page).not.toMatch(/<link/i);
  });
});

describe('the button that shows remote images', () => {
  it.each([
    ['<img src="https://a.test/p">', true],
    ["<img SRC = ' //a.test/p'>", true],
    ['<td background=http://a.test/p>', true],
    ['<p style="background: url( https://a.test/p )">', true],
    [`<p style="background: url(' //a.test/p')">`, true],
    ['<img src="cid:a"><a href="https://a.test">x</a>', false],
    ['<img src="data:image/png;base64,//8=">', false],
  ])('%s: %s', (html, asks) => {
    expect(asksForImages(html)).toBe(asks);
  });

  it.each(['src=', 'url('])('is decided soon, also with a long run of blanks after %s', (start) => {
    expectCpuBelow(1_000, () => asksForImages(`${start}${' '.repeat(200_000)}`));
  });
});
