/** Message-ID of the n-th mail of a series. */
export function benchMessageId(series: string, number: number): string {
  return `<${series}.${number}@bench.test>`;
}

/** A word that only the n-th mail of a series has in its body. */
export function ownWord(series: string, number: number): string {
  return `zz${series.replace(/[^a-z]/g, '')}${number}qq`;
}

const VOCABULARY = Array.from({ length: 20_000 }, (_, index) => wordOf(index));

/**
 * A mail of about `bytes` bytes as people send them: text and HTML, words of a vocabulary of 20,000, from one of
 * 200 people. Equal series and numbers give equal mails.
 */
export function benchMail(
  series: string,
  number: number,
  options: { bytes?: number; to: string; date?: Date },
): Buffer {
  const { bytes = 10_240, to, date = new Date() } = options;
  const random = randomOf(number + 1);
  const sender = `person${number % 200}`;
  const boundary = `=_bench_${number}`;
  const head = [
    `From: "${sender} Writer" <${sender}@elsewhere.test>`,
    `To: <${to}>`,
    `Subject: ${words(random, 40)} ${number}`,
    `Message-ID: ${benchMessageId(series, number)}`,
    `Date: ${date.toUTCString().replace('GMT', '+0000')}`,
    'Received: from mail.elsewhere.test (mail.elsewhere.test [192.0.2.1]) by mail.example.test with ESMTPS',
    'MIME-Version: 1.0',
    `Content-Type: multipart/alternative; boundary="${boundary}"`,
  ].join('\r\n');
  const room = Math.max(200, bytes - head.length - 300);
  const text = `${ownWord(series, number)}\r\n${lines(random, room * 0.4)}`;
  const html = lines(random, room * 0.55).replaceAll('\r\n', '<br>\r\n');
  return Buffer.from(
    `${head}\r\n\r\n--${boundary}\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n${text}\r\n` +
      `--${boundary}\r\nContent-Type: text/html; charset=utf-8\r\n\r\n<html><body>${html}</body></html>\r\n` +
      `--${boundary}--\r\n`,
  );
}

function lines(random: () => number, length: number): string {
  let text = '';
  while (text.length < length) text += `${words(random, 70)}\r\n`;
  return text;
}

function words(random: () => number, length: number): string {
  let text = '';
  // squared: some words are in every mail, most in few
  while (text.length < length) text += `${VOCABULARY[Math.floor(random() ** 2 * VOCABULARY.length)] ?? ''} `;
  return text.trimEnd();
}

function wordOf(index: number): string {
  const syllables = ['ba', 'ko', 'ri', 'ten', 'mu', 'sal', 'ge', 'po', 'lin', 'dra', 'vo', 'shi'];
  let word = '';
  for (let rest = index + 12; rest > 0; rest = Math.floor(rest / 12)) word += syllables[rest % 12] ?? '';
  return word;
}

/** Mulberry32: small, and deterministic for a seed. */
function randomOf(seed: number): () => number {
  let state = seed * 0x9e3779b1;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
