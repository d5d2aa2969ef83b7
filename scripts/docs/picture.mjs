// `node scripts/docs/picture.mjs [FILE]`: records docs/images/first-mail.gif, the picture of README.md, from the real product:
// a mail arrives, its event is posted, and the dashboard and the Temporal UI show both. Debian, as root; a minute.
import { execFileSync, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { ensureInstalled, root } from '../install.mjs';

await ensureInstalled();
const { register } = await import('tsx/esm/api');
register();
const { ensureBrowser } = await import('../../test/helpers/servers/browser-package.ts');
const { installPackages } = await import('../../test/helpers/servers/mail-packages.ts');
const { startMailServers } = await import('../../test/helpers/servers/mail-servers.ts');
const { freePort } = await import('../../test/helpers/servers/free-port.ts');
const { addUser } = await import('../../test/helpers/product/mail-user.ts');
const { openMailbox } = await import('../../test/helpers/product/mailbox.ts');
const { Api } = await import('../../test/helpers/product/api.ts');
const { start } = await import('../../test/helpers/product/start.ts');
const { browse, startBrowser } = await import('../../test/helpers/product/browser.ts');
const { waitFor } = await import('../../test/helpers/assert/wait.ts');

/** Debian's program that makes the frames one file. */
const CONVERT = '/usr/bin/convert';
/** Size of the picture in CSS pixels; it has twice as many pixels. */
const WIDTH = 960;
const HEIGHT = 540;
const CAPTION = 44;
/** How large the pages are shown. */
const SCALE = 0.8;
/** How long each frame is shown, s. */
const SHOWN_S = 3.5;
/** Mails that are in the mailbox already: sender, subject, text. */
const EARLIER = [
  ['Grace Hopper <grace@navy.example>', 'Compiler meeting on Thursday', 'Room 204, at ten.'],
  ['Linus Weber <linus@weber.example>', 'Re: Invoice 2026-118', 'Paid this morning, thank you.'],
  ['Chiara Rossi <chiara@rossi.example>', 'Photos of the new office', 'The light is best in the afternoon.'],
  ['Support <support@parcel.example>', 'Your parcel arrives tomorrow', 'Between 9:00 and 12:00.'],
];
const MAIL = {
  from: 'Ada Lovelace <ada@elsewhere.test>',
  subject: 'Order 1043',
  text: 'Two of the blue ones, please.',
};

const file = process.argv[2] ?? join(root, 'docs/images/first-mail.gif');
const dir = await mkdtemp(join(tmpdir(), 'picture-'));
// the mail servers and Postgres run as users who have to come through
await chmod(dir, 0o711);
const stops = [() => rm(dir, { recursive: true, force: true, maxRetries: 5 })];
try {
  await record();
} finally {
  for (const stop of stops.reverse()) await stop();
}

async function record() {
  const missing = await ensureBrowser(console.log);
  if (missing) throw new Error(missing);
  if (!existsSync(CONVERT)) await installPackages(['imagemagick']);
  const product = await startAll();
  const shots = await shoot(product, await receive(product));
  await mkdir(dirname(file), { recursive: true });
  const frames = shots.map((_, index) => join(dir, `${index}.png`));
  await Promise.all(shots.map((shot, index) => writeFile(frames[index], shot)));
  const small = ['+dither', '-colors', '128', '-layers', 'OptimizeFrame'];
  execFileSync(CONVERT, ['-loop', '0', '-delay', String(SHOWN_S * 100), ...frames, ...small, file]);
  console.log(`${file}: ${Math.round((await readFile(file)).length / 1024)} KB`);
}

/** Runs the product, mail servers and a receiver, and connects a mailbox. */
async function startAll() {
  const { servers, env, stop } = await startMailServers(join(dir, 'mail'), console.log);
  stops.push(stop);
  Object.assign(process.env, env);
  const [port, uiPort, receiverPort] = [await freePort(), await freePort(), await freePort()];
  const data = join(dir, 'data');
  const product = start(data, { PORT: String(port), TEMPORAL_UI_PORT: String(uiPort) }, 'scripts/start.mjs');
  stops.push(async () => {
    product.child.kill('SIGTERM');
    await product.ended();
  });
  await product.ready(10 * 60_000);
  const key = (await readFile(join(data, 'bootstrap-api-key'), 'utf8')).trim();
  const api = new Api(`http://127.0.0.1:${port}`, key);
  const user = await addUser({ user: 'anna@example.test' });
  const url = `http://127.0.0.1:${receiverPort}/`;
  const { secret } = await api.post('/webhooks/endpoints', { url, description: 'Shop', trigger_events: ['email.new'] });
  const receiver = spawn(process.execPath, [join(root, 'scripts/receiver.mjs'), secret, String(receiverPort)]);
  stops.push(() => void receiver.kill());
  const account = await api.connect(user, { name: 'Anna' });
  const box = await openMailbox(user);
  for (const [index, [from, subject, text]] of [...EARLIER].reverse().entries()) {
    const date = new Date(Date.now() - (EARLIER.length - index) * 47 * 60_000);
    await box.append('INBOX', { from, to: user.user, subject, text, date }, { date, flags: ['\\Seen'] });
  }
  await box.close();
  await waitFor(async () => (await api.emails(account.id)).data.length === EARLIER.length, {
    timeoutMs: 60_000,
    what: 'the earlier mails',
  });
  const uiPassword = (await readFile(join(data, 'temporal-ui-password'), 'utf8')).trim();
  const smtpPort = servers.postfix.smtpPort;
  const ui = `http://127.0.0.1:${uiPort}`;
  // the addresses, without the key and the folders of this machine
  const started = product.output().match(/^ {2}(?:Dashboard|API|Docs|Temporal UI) +http\S+/gm);
  return { started, api, account, user: user.user, receiver, smtpPort, ui, uiPassword };
}

/** Sends the mail; returns the terminal before the event, the output of the receiver, and the time in between, ms. */
async function receive({ started, receiver, smtpPort, user }) {
  let output = '';
  let at = 0;
  receiver.stdout.on('data', (bytes) => {
    output += bytes;
    at = Date.now();
  });
  const command = [
    `curl smtp://127.0.0.1:${smtpPort} --mail-from ada@elsewhere.test --mail-rcpt ${user} \\`,
    `  -H 'From: ${MAIL.from}' -H 'To: ${user}' \\`,
    `  -H 'Subject: ${MAIL.subject}' -F '=${MAIL.text}'`,
  ].join('\n');
  execFileSync('sh', ['-c', `${command} -s`]);
  const sent = Date.now();
  await waitFor(() => output.includes(MAIL.subject) && output.endsWith('\n'), { what: () => `the webhook: ${output}` });
  const [listening] = output.split('\n');
  const lines = [
    '$ npm start',
    ...started,
    '',
    '$ node scripts/receiver.mjs "$SECRET" &',
    listening,
    '',
    `$ ${command}`,
  ];
  return { terminal: lines.join('\n'), output, tookMs: at - sent };
}

/** The frames, in order: PNG bytes. */
async function shoot({ api, account, ui, uiPassword }, { terminal, output, tookMs }) {
  const browser = await startBrowser();
  stops.push(() => browser.close());
  const desk = await browse(browser, api.base);
  await desk.page.setViewport({
    width: Math.round(WIDTH / SCALE),
    height: Math.round((HEIGHT - CAPTION) / SCALE),
    deviceScaleFactor: 2 * SCALE,
  });
  const [email] = (await api.emails(account.id, { q: 'Lovelace' })).data;
  const shown = async (selector) => {
    await desk.page.$eval(selector, (element) => element.scrollIntoView({ block: 'end' }));
    return image(await desk.page.screenshot());
  };

  await desk.open(`/mailboxes/${account.id}`);
  await desk.fill('API key', api.key);
  await desk.click('Sign in', 'button');
  await desk.sees(MAIL.subject);
  const mailbox = await shown('.emails');
  await desk.open(`/mailboxes/${account.id}/emails/${email.id}`);
  await desk.sees('Delivered to ');
  const history = await shown('section[aria-labelledby="history"]');

  await desk.page.authenticate({ username: 'operator', password: uiPassword });
  await desk.page.goto(`${ui}/namespaces/default/workflows?query=${encodeURIComponent(`ResourceIds="${email.id}"`)}`);
  await (await desk.page.waitForSelector('a[href*="/workflows/deliver"]')).click();
  await desk.sees('deliver');
  await desk.page.waitForNetworkIdle();
  const run = image(await desk.page.screenshot());

  const [, signature, json] = output.split('\n').slice(-4);
  const event = `${terminal}\n\n${signature}\n${excerpt(JSON.parse(json))}`;
  const scenes = [
    ['A mail arrives in a connected mailbox', screen(terminal)],
    [`${(tookMs / 1000).toFixed(1)} s later your endpoint has its event, signed`, screen(event)],
    ['The email is in your own database: read it over REST, or in the dashboard', mailbox],
    ['What happened to it, up to each call of an endpoint', history],
    ['Its delivery is a Temporal workflow, which you can open', run],
  ];
  const frame = await browse(browser, api.base);
  await frame.page.setViewport({ width: WIDTH, height: HEIGHT, deviceScaleFactor: 2 });
  const frames = [];
  for (const [index, [caption, content]] of scenes.entries()) {
    await frame.page.setContent(pageOf(`${index + 1}/${scenes.length}`, caption, content));
    frames.push(await frame.page.screenshot());
  }
  return frames;
}

/** The fields of an event that fit into the picture, `…` for the others. */
function excerpt({ type, id, account_id, data: { email } }) {
  const { subject, from_attendee, is_unread, body_new } = email;
  const shown = { id: email.id, subject, from_attendee, is_unread, body_new, '…': '' };
  const text = JSON.stringify({ type, id, account_id, data: { email: shown } }, null, 2);
  return text.replace('"…": ""', '…').replace(/("from_attendee": )\{\s+(.*),\s+(.*),\s+(.*)\s+\}/, '$1{ $2, $3, … }');
}

function image(png) {
  return `<img src="data:image/png;base64,${Buffer.from(png).toString('base64')}">`;
}

function escaped(text) {
  return text.replace(/[&<>]/g, (sign) => `&#${sign.charCodeAt(0)};`);
}

/** A terminal: the last lines that it has room for. */
function screen(text) {
  return `<pre>${escaped(text.split('\n').slice(-22).join('\n'))}</pre>`;
}

function pageOf(number, caption, content) {
  return `<style>
    body { margin: 0; font: 500 17px system-ui, sans-serif; background: #fff; }
    header { box-sizing: border-box; height: ${CAPTION}px; padding: 11px 20px; color: #fff; background: #1a56db; }
    header span { opacity: 0.7; margin-right: 10px; }
    img { display: block; width: ${WIDTH}px; }
    pre { box-sizing: border-box; margin: 0; height: ${HEIGHT - CAPTION}px; padding: 20px; color: #e6edf3; background: #0d1117;
      font: 14px/20px ui-monospace, monospace; }
  </style><header><span>${number}</span>${escaped(caption)}</header>${content}`;
}
