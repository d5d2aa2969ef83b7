import { describe, expect, test } from '@jest/globals';
import { htmlToPlain } from '../../../src/mime/html.ts';
import { readReplyText } from '../../../src/mime/reply/reply-text.ts';

/* The text that the author of a reply wrote, in the forms of mail programs and languages. */

const OWN = 'Yes, that suits me.\n\nSee you at the station.';
const ofHtml = (html: string): string | null => readReplyText(htmlToPlain(html), html);

/** The line above a quote. `|` stands for the place at which a program may wrap it. */
const ATTRIBUTIONS: [string, string][] = [
  ['Gmail, English', 'On Tue, Mar 3, 2026 at 9:00 AM Ada Berg |<ada@mail.example> wrote:'],
  ['Gmail, British', 'On Tue, 3 Mar 2026 at 09:00, Ada Berg <|ada@mail.example> wrote:'],
  ['Gmail, German', 'Am Di., 3. März 2026 um 09:00 Uhr schrieb Ada Berg <|ada@mail.example>:'],
  ['Gmail, German, name first', 'Ada Berg <ada@mail.example> schrieb am Di., 3. März 2026 um |09:00 Uhr:'],
  ['Gmail, French', 'Le mar. 3 mars 2026 à 09:00, Ada Berg <ada@mail.example> a |écrit :'],
  ['Gmail, Spanish', 'El mar, 3 mar 2026 a las 9:00, Ada Berg (<ada@mail.example>) |escribió:'],
  ['Gmail, Italian', 'Il giorno mar 3 mar 2026 alle ore 09:00 Ada Berg <|ada@mail.example> ha scritto:'],
  ['Gmail, Brazilian', 'Em ter., 3 de mar. de 2026 às 09:00, Ada Berg <|ada@mail.example> escreveu:'],
  ['Gmail, Portuguese', 'Ada Berg <ada@mail.example> escreveu (terça, 3/03/2026 à(s) |09:00):'],
  ['Gmail, Dutch', 'Op di 3 mrt 2026 om 09:00 schreef Ada Berg <|ada@mail.example>:'],
  ['Gmail, Swedish', 'Den tis 3 mars 2026 kl 09:00 skrev Ada Berg <|ada@mail.example>:'],
  ['Gmail, Danish', 'Den tirs. 3. mar. 2026 kl. 09.00 skrev Ada Berg <|ada@mail.example>:'],
  ['Gmail, Norwegian', 'tir. 3. mars 2026 kl. 09:00 skrev Ada Berg <|ada@mail.example>:'],
  ['Gmail, Finnish', 'ti 3. maalisk. 2026 klo 9.00 Ada Berg (ada@mail.example) |kirjoitti:'],
  ['Gmail, Polish', 'wt., 3 mar 2026 o 09:00 Ada Berg <ada@mail.example> |napisał(a):'],
  ['Gmail, Czech', 'út 3. 3. 2026 v 9:00 odesílatel Ada Berg <|ada@mail.example> napsal:'],
  ['Gmail, Slovak', 'ut 3. 3. 2026 o 9:00 Ada Berg <ada@mail.example> |napísal(a):'],
  ['Gmail, Hungarian', 'Ada Berg <ada@mail.example> ezt írta (időpont: 2026. márc. 3., |K, 9:00):'],
  ['Gmail, Romanian', 'În mar., 3 mar. 2026 la 09:00, Ada Berg <ada@mail.example> a |scris:'],
  ['Gmail, Turkish', 'Ada Berg <ada@mail.example>, 3 Mar 2026 Sal, 09:00 tarihinde |şunu yazdı:'],
  ['Gmail, Russian', 'вт, 3 мар. 2026 г. в 09:00, Ада Берг <|ada@mail.example>:'],
  ['Gmail, Ukrainian', 'вт, 3 бер. 2026 р. о 09:00 Ада Берг <ada@mail.example> пише:'],
  ['Gmail, Bulgarian', 'На вт, 3.03.2026 г. в 9:00 Ада Берг <ada@mail.example> написа:'],
  ['Gmail, Greek', 'Στις Τρί 3 Μαρ 2026 στις 9:00 π.μ., ο χρήστης Ada Berg <|ada@mail.example> έγραψε:'],
  ['Gmail, Croatian', 'uto, 3. ožu 2026. u 09:00 Ada Berg <ada@mail.example> napisao |je:'],
  ['Gmail, Japanese', '2026年3月3日(火) 9:00 Ada Berg <ada@mail.example>:'],
  ['Gmail, Korean', '2026년 3월 3일 (화) 오전 9:00, Ada Berg <ada@mail.example>님이 작성:'],
  ['Gmail, Chinese', 'Ada Berg <ada@mail.example> 于2026年3月3日周二 09:00写道：'],
  ['Gmail, Taiwan', 'Ada Berg <ada@mail.example> 於 2026年3月3日 週二 上午9:00寫道：'],
  ['Gmail, Vietnamese', 'Vào Th 3, 3 thg 3, 2026 vào lúc 09:00 Ada Berg <|ada@mail.example> đã viết:'],
  ['Gmail, Indonesian', 'Pada tanggal Sel, 3 Mar 2026 pukul 09.00 Ada Berg <|ada@mail.example> menulis:'],
  ['Gmail, Thai', 'ในวันที่ อ. 3 มี.ค. 2026 เวลา 09:00 น. Ada Berg <ada@mail.example> เขียนว่า:'],
  [
    'Gmail, Hebrew',
    '\u202bבתאריך יום ג׳, 3 במרץ 2026 ב-9:00 מאת \u202aAda Berg\u202c\u200f <\u202aada@mail.example\u202c\u200f>:\u202c',
  ],
  ['Gmail, Arabic', 'في الثلاثاء، 3 مارس 2026 في 9:00 ص تمت كتابة ما يلي بواسطة Ada Berg <ada@mail.example>:'],
  ['Gmail, Catalan', 'Missatge de Ada Berg <ada@mail.example> del dia dt., 3 de març |2026 a les 9:00:'],
  ['Gmail, earlier', '2026-03-03 9:00 GMT+01:00 Ada Berg <ada@mail.example>:'],
  ['Apple Mail, English', 'On 3 Mar 2026, at 09:00, Ada Berg <ada@mail.example> wrote:'],
  ['Apple Mail, German', 'Am 03.03.2026 um 09:00 schrieb Ada Berg <ada@mail.example>:'],
  ['Apple Mail, French', 'Le 3 mars 2026 à 09:00, Ada Berg <ada@mail.example> a écrit :'],
  ['Apple Mail, Dutch', 'Op 3 mrt 2026 om 09:00 heeft Ada Berg <ada@mail.example> het volgende |geschreven:'],
  ['Apple Mail, Japanese', '2026/03/03 9:00、Ada Berg <ada@mail.example>のメール:'],
  ['Apple Mail, Chinese', '在 2026年3月3日，上午9:00，Ada Berg <ada@mail.example> 写道：'],
  ['Apple Mail, Russian', '3 марта 2026 г., в 09:00, Ада Берг <ada@mail.example> написал(а):'],
  ['Thunderbird, English', 'On 3/3/26 09:00, Ada Berg wrote:'],
  ['Thunderbird, German', 'Am 03.03.26 um 09:00 schrieb Ada Berg:'],
  ['Thunderbird, French', 'Le 03/03/2026 à 09:00, Ada Berg a écrit :'],
  ['Thunderbird, Italian', 'Il 03/03/26 09:00, Ada Berg ha scritto:'],
  ['Thunderbird, Spanish', 'El 3/3/26 a las 9:00, Ada Berg escribió:'],
  ['Thunderbird, Dutch', 'Op 03-03-2026 om 09:00 schreef Ada Berg:'],
  ['Thunderbird, Polish', 'W dniu 3.03.2026 o 09:00, Ada Berg pisze:'],
  ['Thunderbird, Swedish', 'Den 2026-03-03 kl. 09:00, skrev Ada Berg:'],
  ['Thunderbird, Russian', '03.03.2026 09:00, Ада Берг пишет:'],
  ['Yahoo, English', 'On Tuesday, March 3, 2026 at 09:00:00 AM GMT+1, Ada Berg <|ada@mail.example> wrote:'],
  [
    'Yahoo, German',
    'Am Dienstag, 3. März 2026 um 09:00:00 MEZ hat Ada Berg <|ada@mail.example> Folgendes geschrieben:',
  ],
  ['Yahoo, Spanish', 'En martes, 3 de marzo de 2026, 09:00:00 CET, Ada Berg <|ada@mail.example> escribió:'],
  ['Yahoo, Italian', 'In data martedì 3 marzo 2026 alle ore 09:00:00 CET, Ada Berg <|ada@mail.example> ha scritto:'],
  ['Proton', 'On Tuesday, March 3rd, 2026 at 9:00 AM, Ada Berg <ada@mail.example> |wrote:'],
  ['Zoho', '---- On Tue, 03 Mar 2026 09:00:00 +0100 Ada Berg <ada@mail.example> wrote ----'],
];

describe('the line above a quote goes with the quote', () => {
  test.each(ATTRIBUTIONS)('%s', (_, attribution) => {
    for (const line of [attribution.replace('|', ''), attribution.replace(/ ?\|/, '\n')]) {
      for (const text of [
        `${OWN}\n\n${line}\n\n> Shall we meet?\n> Ada\n`,
        `${OWN}\n\n${line}\n\nShall we meet?\nAda\n`,
        `${OWN}\n${line}\n> Shall we meet?\n`,
        `${line}\n> Shall we meet?\n>\n> Ada\n\n${OWN}\n`,
      ]) {
        expect(readReplyText(text)).toBe(OWN);
      }
    }
  });
});

/** What programs write above a message that they copy below the text. */
const COPIES: [string, string][] = [
  [
    'Outlook',
    '________________________________\nFrom: Ada Berg <ada@mail.example>\nSent: Tuesday, March 3, 2026 9:00 AM\nTo: Bo\nSubject: Trip',
  ],
  [
    'Outlook without a rule',
    'From: Ada Berg <ada@mail.example>\nSent: Tuesday, March 3, 2026 9:00 AM\nTo: Bo <bo@mail.example>; Cy\n <cy@mail.example>\nCc: Di\nSubject: Trip',
  ],
  [
    'Outlook, bold',
    '*From:* Ada Berg <ada@mail.example>\n*Sent:* Tuesday, March 3, 2026 9:00 AM\n*To:* Bo\n*Subject:* Trip',
  ],
  ['Outlook, paragraphs', 'From: Ada Berg\n\nSent: Tuesday, March 3, 2026 9:00 AM\n\nTo: Bo\n\nSubject: Trip'],
  [
    'Outlook, plain text',
    '-----Original Message-----\nFrom: Ada Berg [mailto:ada@mail.example]\nSent: Tuesday\nTo: Bo\nSubject: Trip',
  ],
  [
    'Outlook, German',
    'Von: Ada Berg <ada@mail.example>\nGesendet: Dienstag, 3. März 2026 09:00\nAn: Bo\nBetreff: Reise',
  ],
  [
    'Outlook, German, plain text',
    '-----Ursprüngliche Nachricht-----\nVon: Ada Berg\nGesendet: Dienstag\nAn: Bo\nBetreff: Reise',
  ],
  [
    'Outlook, French',
    "-----Message d'origine-----\nDe : Ada Berg\nEnvoyé : mardi 3 mars 2026 09:00\nÀ : Bo\nObjet : Voyage",
  ],
  [
    'Outlook, Spanish',
    'De: Ada Berg <ada@mail.example>\nEnviado el: martes, 3 de marzo de 2026 9:00\nPara: Bo\nAsunto: Viaje',
  ],
  [
    'Outlook, Italian',
    '-----Messaggio originale-----\nDa: Ada Berg\nInviato: martedì 3 marzo 2026 09:00\nA: Bo\nOggetto: Viaggio',
  ],
  [
    'Outlook, Portuguese',
    'De: Ada Berg <ada@mail.example>\nEnviada em: terça-feira, 3 de março de 2026 09:00\nPara: Bo\nAssunto: Viagem',
  ],
  [
    'Outlook, Dutch',
    'Van: Ada Berg <ada@mail.example>\nVerzonden: dinsdag 3 maart 2026 09:00\nAan: Bo\nOnderwerp: Reis',
  ],
  ['Outlook, Swedish', 'Från: Ada Berg <ada@mail.example>\nSkickat: den 3 mars 2026 09:00\nTill: Bo\nÄmne: Resa'],
  ['Outlook, Danish', 'Fra: Ada Berg <ada@mail.example>\nSendt: 3. marts 2026 09:00\nTil: Bo\nEmne: Rejse'],
  [
    'Outlook, Finnish',
    'Lähettäjä: Ada Berg\nLähetetty: tiistai 3. maaliskuuta 2026 9.00\nVastaanottaja: Bo\nAihe: Matka',
  ],
  ['Outlook, Polish', 'Od: Ada Berg <ada@mail.example>\nWysłane: wtorek, 3 marca 2026 09:00\nDo: Bo\nTemat: Podróż'],
  ['Outlook, Czech', 'Od: Ada Berg\nOdesláno: úterý 3. března 2026 9:00\nKomu: Bo\nPředmět: Cesta'],
  ['Outlook, Russian', 'От: Ада Берг <ada@mail.example>\nОтправлено: 3 марта 2026 г. 9:00\nКому: Bo\nТема: Поездка'],
  ['Outlook, Turkish', 'Kimden: Ada Berg\nGönderildi: 3 Mart 2026 Salı 09:00\nKime: Bo\nKonu: Gezi'],
  ['Outlook, Japanese', '差出人: Ada Berg\n送信日時: 2026年3月3日 9:00\n宛先: Bo\n件名: 旅行'],
  ['Outlook, Chinese', '发件人: Ada Berg\n发送时间: 2026年3月3日 9:00\n收件人: Bo\n主题: 旅行'],
  ['Outlook, Korean', '보낸 사람: Ada Berg\n보낸 날짜: 2026년 3월 3일\n받는 사람: Bo\n제목: 여행'],
  [
    'Outlook for the Mac',
    'From: Ada Berg <ada@mail.example>\nDate: Tuesday, 3 March 2026 at 09:00\nTo: Bo\nSubject: Trip',
  ],
  [
    'Samsung',
    '-------- Original message --------\nFrom: Ada Berg <ada@mail.example>\nDate: 3/3/26 09:00 (GMT+01:00)\nTo: Bo\nSubject: Trip',
  ],
  [
    'Samsung, German',
    '-------- Ursprüngliche Nachricht --------\nVon: Ada Berg <ada@mail.example>\nDatum: 03.03.26 09:00 (GMT+01:00)\nAn: Bo\nBetreff: Reise',
  ],
  [
    'Proton',
    '------- Original Message -------\nOn Tuesday, March 3rd, 2026 at 9:00 AM, Ada Berg <ada@mail.example> wrote:\n',
  ],
  [
    'Proton, earlier',
    '‐‐‐‐‐‐‐ Original Message ‐‐‐‐‐‐‐\nOn Tuesday, 3 March 2026 09:00, Ada Berg <ada@mail.example> wrote:\n',
  ],
  [
    'QQ',
    '------------------ 原始邮件 ------------------\n发件人: "Ada Berg" <ada@mail.example>;\n发送时间: 2026年3月3日\n',
  ],
  ['Orange', 'Message du : 03/03/2026 09:00\nDe : "Ada Berg" <ada@mail.example>\nA : bo@mail.example\nSujet : Voyage'],
  [
    'a Gmail forward',
    '---------- Forwarded message ---------\nFrom: Ada Berg <ada@mail.example>\nDate: Tue, Mar 3, 2026 at 9:00 AM\nSubject: Trip\nTo: Bo',
  ],
  [
    'a German Gmail forward',
    '---------- Forwarded message ---------\nVon: Ada Berg <ada@mail.example>\nDate: Di., 3. März 2026 um 09:00 Uhr\nSubject: Reise\nTo: Bo',
  ],
  [
    'an Apple forward',
    'Begin forwarded message:\n\nFrom: Ada Berg <ada@mail.example>\nSubject: Trip\nDate: 3 March 2026 at 09:00:00 CET\nTo: Bo',
  ],
  [
    'a German Apple forward',
    'Anfang der weitergeleiteten Nachricht:\n\nVon: Ada Berg <ada@mail.example>\nBetreff: Reise\nDatum: 3. März 2026\nAn: Bo',
  ],
  [
    'a Thunderbird forward',
    '-------- Forwarded Message --------\nSubject: Trip\nDate: Tue, 3 Mar 2026 09:00:00 +0100\nFrom: Ada Berg <ada@mail.example>\nTo: Bo',
  ],
  [
    'a German Thunderbird forward',
    '-------- Weitergeleitete Nachricht --------\nBetreff: Reise\nDatum: Tue, 3 Mar 2026 09:00:00 +0100\nVon: Ada Berg\nAn: Bo',
  ],
];

describe('a message copied below the text goes', () => {
  test.each(COPIES)('%s', (_, head) => {
    expect(readReplyText(`${OWN}\n\n${head}\n\nShall we meet?\n\n---\nAda\n`)).toBe(OWN);
    expect(readReplyText(`${head}\n\nShall we meet?`)).toBeNull();
  });
});

/** HTML of replies as programs write it; the text below the mark must go, in any language. */
const QUOTE = '<p>Shall we meet?</p><p>Ada</p>';
const OWN_HTML = '<div>Yes, that suits me.</div><div><br></div><div>See you at the station.</div>';
const MARKED: [string, string][] = [
  [
    'Gmail',
    `<div dir="ltr">${OWN_HTML}</div><br><div class="gmail_quote gmail_quote_container"><div dir="ltr" class="gmail_attr">Sel 3.3. Ada schraibt<br></div><blockquote class="gmail_quote" style="margin:0px 0px 0px 0.8ex;border-left:1px solid rgb(204,204,204);padding-left:1ex">${QUOTE}</blockquote></div>`,
  ],
  [
    'Gmail, a forward',
    `<div dir="ltr">${OWN_HTML}<div class="gmail_quote"><div dir="ltr" class="gmail_attr">---------- Forwarded message ---------<br>Ada<br></div><br>${QUOTE}<blockquote class="gmail_quote">older</blockquote>more</div></div>`,
  ],
  [
    'Gmail, with a signature',
    `<div dir="ltr">${OWN_HTML}<div><div dir="ltr" class="gmail_signature">Bo Lind<br>Example Ltd</div></div></div><div class="gmail_quote"><div class="gmail_attr">x</div><blockquote class="gmail_quote">${QUOTE}</blockquote></div>`,
  ],
  [
    'Apple Mail',
    `<html><body>${OWN_HTML}<div><br><blockquote type="cite"><div>ada heeft op 3 mrt. dit gezegd</div><br class="Apple-interchange-newline"><div>${QUOTE}</div></blockquote></div></body></html>`,
  ],
  [
    'Thunderbird',
    `<p>Yes, that suits me.</p><p>See you at the station.</p><div class="moz-cite-prefix">Dne 3. brzna v devět Ada pravila<br></div><blockquote type="cite" cite="mid:1@x">${QUOTE}</blockquote>`,
  ],
  [
    'Thunderbird, a forward',
    `<p>Yes, that suits me.</p><p>See you at the station.</p><div class="moz-forward-container"><table class="moz-email-headers-table"></table>${QUOTE}</div>`,
  ],
  [
    'Yahoo',
    `<div>${OWN_HTML}</div><div id="ydp5f0yahoo_quoted_1" class="ydp5f0yahoo_quoted"><div>Ada, w zeszły wtorek</div>${QUOTE}</div>`,
  ],
  [
    'Proton',
    `<div>${OWN_HTML}</div><div class="protonmail_signature_block"><div>Sent with secure email.</div></div><div class="protonmail_quote">Ada, last week<br><blockquote class="protonmail_quote" type="cite">${QUOTE}</blockquote></div>`,
  ],
  [
    'Outlook on the web',
    `<div>${OWN_HTML}</div><div id="appendonsend"></div><hr><div id="divRplyFwdMsg" dir="ltr"><b>Pošiljatelj:</b> Ada<br></div>${QUOTE}`,
  ],
  [
    'Outlook on the web, quoted again',
    `<div>${OWN_HTML}</div><hr><div id="x_divRplyFwdMsg" dir="ltr"><b>Saatja:</b> Ada<br></div>${QUOTE}`,
  ],
  [
    'Outlook for phones',
    `${OWN_HTML}<div id="ms-outlook-mobile-signature">Get Outlook for iOS</div><hr><div id="divRplyFwdMsg"><b>Nuo:</b> Ada</div>${QUOTE}`,
  ],
  [
    'Outlook, new',
    `${OWN_HTML}<div id="mail-editor-reference-message-container"><div>Ada, last week</div>${QUOTE}</div>`,
  ],
  [
    'Outlook for Windows',
    `<p class=MsoNormal>Yes, that suits me.</p><p class=MsoNormal>See you at the station.</p><div><div style='border:none;border-top:solid #E1E1E1 1.0pt;padding:3.0pt 0cm 0cm 0cm'><p class=MsoNormal><b>Saatja:</b> Ada<br><b>Saadetud:</b> teisipäev</p></div></div>${QUOTE}`,
  ],
  ['Outlook for the Mac', `${OWN_HTML}<span id="OLK_SRC_BODY_SECTION"><div>Ada, last week</div>${QUOTE}</span>`],
  ['Hotmail', `${OWN_HTML}<hr id="stopSpelling"><div>Ada, last week</div>${QUOTE}`],
  ['Samsung', `${OWN_HTML}<!-- originalMessage --><div>Ada, last week</div>${QUOTE}`],
  ['Zoho', `${OWN_HTML}<div class="zmail_extra"><div>Ada, last week</div><blockquote>${QUOTE}</blockquote></div>`],
  ['GMX', `${OWN_HTML}<div name="quote" style="margin:10px 5px"><div>Ada, last week</div>${QUOTE}</div>`],
  [
    'Spark',
    `${OWN_HTML}<div name="messageSignatureSection">Bo Lind</div><div name="messageReplySection">Ada, last week${QUOTE}</div>`,
  ],
  ['Zimbra', `${OWN_HTML}<hr id="zwchr" data-marker="__DIVIDER__"><div>Ada, last week</div>${QUOTE}`],
];

describe('the marks of programs in HTML', () => {
  const words = (text: string | null) => text?.split(/\s+/).join(' ');

  test.each(MARKED)('%s', (_, html) => {
    expect(words(ofHtml(html))).toBe(words(OWN));
    // The text beside it may have no sign of a quote.
    expect(words(readReplyText(`${OWN}\n\nAda, last week\n\nShall we meet?\n\nAda`, html))).toBe(words(OWN));
  });

  test('answers between quoted blocks stay', () => {
    const block = (text: string) =>
      `<blockquote class="gmail_quote" style="border-left:1px solid #ccc">${text}</blockquote>`;
    const html = `<div class="gmail_quote"><div class="gmail_attr">On Tue, Ada wrote:</div>${block('Shall we meet?')}<div>Yes.</div>${block('Where?')}<div>At the station.</div></div>`;
    expect(ofHtml(html)).toBe('Yes.\n\nAt the station.');
    expect(ofHtml('<blockquote type="cite">Where?</blockquote><p>At the station.</p>')).toBe('At the station.');
  });

  test('a paragraph that the author indents stays', () => {
    const html =
      '<div>I propose:</div><blockquote style="margin:0 0 0 40px;border:none;padding:0px">Monday at nine</blockquote><div>Fine?</div>';
    expect(words(ofHtml(html))).toBe('I propose: Monday at nine Fine?');
  });

  test('a passage that the author cites stays, and a quote without a mark goes', () => {
    const block = '<blockquote><p>To be, or not to be</p></blockquote>';
    expect(words(ofHtml(`<p>As he says:</p>${block}<p>Fine?</p>`))).toBe('As he says: To be, or not to be Fine?');
    expect(ofHtml(`<p>Fine.</p><p>On Tue, Mar 3, 2026 at 9:00, Ada wrote:</p>${block}<p>Bo</p>`)).toBe('Fine.\n\nBo');
    expect(ofHtml(`<p>Fine.</p><p>Ada wrote:</p>${block}`)).toBe('Fine.');
    expect(ofHtml(`<p>Fine.</p><p><b>From:</b> Ada &lt;ada@mail.example&gt;</p>${block}`)).toBe('Fine.');
    const inside = '<blockquote><p>Ada Berg &lt;ada@mail.example&gt; wrote:</p><p>Lunch?</p></blockquote>';
    expect(ofHtml(`<p>Fine.</p>${inside}`)).toBe('Fine.');
    expect(ofHtml(`<p>Fine.<blockquote>not closed`)).toBe('Fine.\n\nnot closed');
  });

  test('a text that is written in the place of the signature stays', () => {
    expect(ofHtml('<div id="Signature"><p>I agree.</p></div><div id="appendonsend"></div><hr>older')).toBe('I agree.');
  });

  test('a name of a mark in a text is no mark', () => {
    expect(readReplyText('Our class gmail_quote is\n\nblue.', '<p>Our class gmail_quote is</p><p>blue.</p>')).toBe(
      'Our class gmail_quote is\n\nblue.',
    );
  });
});

describe('the text of the author is not lost', () => {
  test.each([
    [
      'a sentence that begins like the line of a phone',
      'Sent from our warehouse on Monday, the parcel is due on Friday.',
    ],
    ['a sentence about a phone', 'Sent from my desk, which is easier than my mobile phone.\nMore tomorrow.'],
    ['a rule between two parts', 'Agenda for today\n---\nPlease pay invoice 4711 by Friday.'],
    ['rules of all kinds', 'One\n====\nTwo\n____\nThree\n++++\nFour\n--------\nFive'],
    ['two dashes before items', 'I write because of:\n-- the first point\n-- the second point'],
    ['a sentence with a date and a colon', 'On 3 March 2026 we agreed on this:\n\n- no delay\n- no surcharge'],
    [
      'a sentence about what was written on a day',
      'Hello,\n\nOn 12.05.2025 our lawyer wrote:\n"the contract is void".\n\nPlease advise by Friday.',
    ],
    ['such a sentence without a year', 'Hello,\n\nOn 12.05 our lawyer wrote:\n"it is void".\n\nPlease advise.'],
    ['such a sentence in German', 'Hallo,\n\nAm 12. Mai 2025 schrieb unser Anwalt:\n"Er ist nichtig."\n\nWas tun?'],
    ['a sentence about what was written', 'I remember what Ada wrote: that we meet at nine.\nShall we?'],
    ['a question about an address', 'Please write by 10:30 to Bo <bo@mail.example>:\nhe knows more.'],
    ['a form with places', 'Please book:\nFrom: Berlin\nTo: Paris\nDate: 3 March 2026 at 09:00\nTwo seats.'],
    [
      'a closing before more text',
      'Cheers!\n\nThat was fast. I will look at it tomorrow and let you know what I find.',
    ],
    ['a postscript', 'I agree.\n\nBest regards,\nBo\n\nPS: bring the key.'],
    ['a closing alone', 'Cheers,\nBo'],
    ['a long text with its own short lines', 'Dear Ada,\n\nOn Monday: trains.\nAt nine: coffee.\nIn Rome: rest.'],
  ])('%s', (_, text) => {
    expect(readReplyText(text)).toBe(text);
    expect(readReplyText(`${text}\n\nOn Tue, 3 Mar 2026 at 09:00, Ada <ada@mail.example> wrote:\n> Hello`)).toBe(text);
  });

  test('a text between quotes, and below them', () => {
    expect(readReplyText('> Lunch?\nYes.\n> Where?\nHere.\n')).toBe('Yes.\n\nHere.');
    expect(readReplyText('Ada wrote:\n> Lunch?\n\nYes.\n\n-- \nBo')).toBe('Yes.');
    expect(readReplyText(`Hi Ada,\n\n${'> a line of the quote\n'.repeat(200)}\n${OWN}`)).toBe(`Hi Ada,\n\n${OWN}`);
  });

  test('a quoted line of great length', () => {
    expect(readReplyText(`${OWN}\n\n> ${'word '.repeat(400)}\n`)).toBe(OWN);
  });

  test('a text above a long thread', () => {
    expect(readReplyText(`${OWN}\n\n${'> a line of the quote, which is not short\n'.repeat(6000)}`)).toBe(OWN);
  });
});
