import type { Browsing } from '../product/browser.ts';

/** Dates with 12 hours, dates with 24 hours, and a language that is written from right to left. */
export const LOCALES = ['en-US', 'de-DE', 'ar'] as const;

const LOOKS = [
  { look: 'light', dark: false, narrow: false },
  { look: 'dark', dark: true, narrow: false },
  { look: 'narrow', dark: false, narrow: true },
];

const WIDE = { width: 1280, height: 860 };
const NARROW = { width: 390, height: 844 };

/**
 * What is wrong with the page as it is now, in the light, in the dark and on a narrow screen: faults that axe finds, what is wider
 * than the screen, and text that is cut. The direction is that of the visitor's locale.
 */
export async function faultsInLooks(visitor: Browsing, name: string): Promise<string[]> {
  const { page } = visitor;
  const locale = String(await page.evaluate(TURN));
  const found: string[] = [];
  for (const { look, dark, narrow } of LOOKS) {
    await page.setViewport(narrow ? NARROW : WIDE);
    await page.emulateMediaFeatures([
      { name: 'prefers-color-scheme', value: dark ? 'dark' : 'light' },
      { name: 'prefers-reduced-motion', value: 'reduce' },
    ]);
    await page.evaluate('new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))');
    const faults = [...(await visitor.audit('all')), ...((await page.evaluate(CUT)) as string[])];
    found.push(...faults.map((fault) => `${name}, ${locale}, ${look}: ${fault}`));
    await visitor.picture(`${name}-${locale}-${look}`);
  }
  await page.setViewport(WIDE);
  return found;
}

/** Writes the page in the direction of the locale, as the translators of browsers do; returns the locale. */
const TURN = `(() => {
  const { locale } = Intl.DateTimeFormat().resolvedOptions();
  document.documentElement.dir = locale.startsWith('ar') ? 'rtl' : 'ltr';
  return locale;
})()`;

/** The texts that leave the screen, their button or their cell, or are cut without an ellipsis; and the width of the page. */
const CUT = `(() => {
  const wider = document.documentElement.scrollWidth - innerWidth;
  const found = wider > 0 ? [wider + ' px wider than the screen'] : [];
  for (const wrap of document.querySelectorAll('.table-wrap')) {
    if (wrap.scrollWidth > wrap.clientWidth + 1) found.push('columns are hidden: ' + wrap.textContent.slice(0, 80));
  }
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = texts.nextNode(); text; text = texts.nextNode()) {
    const element = text.parentElement;
    if (!text.data.trim() || !element.checkVisibility({ visibilityProperty: true }) || element.closest('.visually-hidden, .skip, option, script')) continue;
    const range = document.createRange();
    range.selectNodeContents(text);
    const { left, right, top, bottom } = range.getBoundingClientRect();
    for (let box = element; ; box = box.parentElement) {
      if (!box) {
        if (left < -1 || right > innerWidth + 1) found.push('off the screen: ' + text.data);
        break;
      }
      const { overflowX, overflowY, textOverflow } = getComputedStyle(box);
      const edge = box.getBoundingClientRect();
      const isHidden = overflowX === 'hidden' || overflowX === 'clip';
      const holds = isHidden || box.matches('.button, .badge, td, th');
      if (textOverflow === 'ellipsis' || overflowX === 'auto' || overflowX === 'scroll') break;
      if (holds && (left < edge.left - 1 || right > edge.right + 1)) found.push('cut: ' + text.data);
      if (isHidden && overflowY === 'hidden' && (top < edge.top - 1 || bottom > edge.bottom + 1)) found.push('cut in height: ' + text.data);
    }
  }
  return found;
})()`;
