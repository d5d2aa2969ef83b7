import { mkdir, readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import puppeteer, { type Browser, type ElementHandle, type Page } from 'puppeteer-core';
import { CHROMIUM } from '../servers/browser-package.ts';

const require = createRequire(import.meta.url);
const AXE = require.resolve('axe-core/axe.min.js');

/** How long to wait for the content of a page, ms. */
const SHOWN_MS = 30_000;

/** A page of a real browser, with its faults. */
export interface Browsing {
  page: Page;
  /** failed scripts, and requests that the policy of the page refused */
  faults: string[];
  /** Opens a path of the product. */
  open(path: string): Promise<void>;
  /** Waits until the page or a dialog shows the text. */
  sees(text: string): Promise<void>;
  /** Clicks the first element with this accessible name, once it exists. */
  click(name: string, role?: string): Promise<void>;
  /** Replaces the value of the field with this label. */
  fill(label: string, value: string): Promise<void>;
  choose(label: string, value: string): Promise<void>;
  /** Faults that axe finds, the serious ones or all: `rule: element`. */
  audit(which?: 'serious' | 'all'): Promise<string[]>;
  /** A picture of the page, when SCREENSHOTS names a folder. */
  picture(name: string): Promise<void>;
  close(): Promise<void>;
}

export async function startBrowser(): Promise<Browser> {
  // root cannot use the sandbox of the browser; all content comes from the tests
  return puppeteer.launch({
    executablePath: CHROMIUM,
    args: ['--no-sandbox', '--disable-dev-shm-usage', '--lang=en-GB'],
  });
}

/** How a page is looked at; `language`: its `Accept-Language`; `locale`: of its dates and numbers; `address`: of the visitor, as a proxy names it. */
export interface View {
  width?: number;
  height?: number;
  dark?: boolean;
  language?: string;
  locale?: string;
  address?: string;
}

/** A page with separate cookies. */
export async function browse(
  browser: Browser,
  base: string,
  { width = 1280, height = 860, dark = false, language, locale, address }: View = {},
): Promise<Browsing> {
  const context = await browser.createBrowserContext();
  const page = await context.newPage();
  page.setDefaultTimeout(SHOWN_MS);
  await page.setViewport({ width, height, deviceScaleFactor: 1 });
  await page.setExtraHTTPHeaders({
    ...(language !== undefined && { 'Accept-Language': language }),
    ...(address !== undefined && { 'X-Forwarded-For': address }),
  });
  if (locale !== undefined) await (await page.createCDPSession()).send('Emulation.setLocaleOverride', { locale });
  await page.emulateMediaFeatures([
    { name: 'prefers-color-scheme', value: dark ? 'dark' : 'light' },
    { name: 'prefers-reduced-motion', value: 'reduce' },
  ]);
  const faults: string[] = [];
  page.on('pageerror', (error) => faults.push(String(error)));
  page.on('console', (message) => {
    if (/Content Security Policy/i.test(message.text())) faults.push(message.text());
  });
  // a page that is left may hold text; without this, it could not be left
  page.on('dialog', (dialog) => void (dialog.type() === 'beforeunload' ? dialog.accept() : dialog.dismiss()));
  const self: Browsing = {
    page,
    faults,
    open: async (path) => void (await page.goto(`${base}${path}`, { waitUntil: 'load' })),
    sees: async (text) => void (await page.waitForSelector(`::-p-text(${text})`, { visible: true })),
    click: async (name, role) => {
      await page.locator(`::-p-aria([name="${name}"]${role === undefined ? '' : `[role="${role}"]`})`).click();
    },
    fill: async (label, value) => page.locator(`::-p-aria([name="${label}"])`).fill(value),
    choose: async (label, value) => {
      const element = await page.waitForSelector(`::-p-aria([name="${label}"][role="combobox"])`);
      await element?.select(value);
    },
    audit: (which = 'serious') => audit(page, which),
    picture: async (name) => {
      const dir = process.env['SCREENSHOTS'];
      if (dir === undefined) return;
      await mkdir(dir, { recursive: true });
      await page.screenshot({ path: join(dir, `${name}.png`), fullPage: true });
    },
    close: () => context.close(),
  };
  return self;
}

/** Types the servers of a connect form: on loopback, without encryption. */
export async function typeServers({ page }: Browsing, ports: [imap: number, smtp: number]): Promise<void> {
  for (const [index, side] of (await page.$$('.servers')).entries()) {
    const [host, port] = await side.$$('input');
    await retype(host, '127.0.0.1');
    await retype(port, String(ports[index]));
    await (await side.$('select'))?.select('NONE');
  }
}

/** Not by clicks, which miss a field that moves. */
async function retype(field: ElementHandle | undefined, text: string): Promise<void> {
  await field?.evaluate((input) => (input as unknown as { select(): void }).select());
  await field?.type(text);
}

interface AxeResult {
  violations: { id: string; impact: string | null; nodes: { target: unknown[] }[] }[];
}

async function audit(page: Page, which: 'serious' | 'all'): Promise<string[]> {
  // as a string: the policy of the page refuses inline scripts, but not scripts that the browser evaluates
  if (!(await page.evaluate('"axe" in globalThis'))) await page.evaluate(await readFile(AXE, 'utf8'));
  const options = { iframes: false, preload: false, resultTypes: ['violations'] };
  const { violations } = (await page.evaluate(`axe.run(document, ${JSON.stringify(options)})`)) as AxeResult;
  return violations
    .filter(({ impact }) => which === 'all' || impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) => nodes.map(({ target }) => `${id}: ${JSON.stringify(target)}`));
}
