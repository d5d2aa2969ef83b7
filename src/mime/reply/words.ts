/*
 * Words of mail programs in the languages of their users. Each list becomes one expression; letters of any case match.
 */

/** A word of scripts with spaces between words is not part of a longer one. */
const bounded = (words: string): string => String.raw`(?<![\p{L}\d])(?:${words})(?![\p{L}\d])`;

/** "wrote" in the line above a quote. */
export const WROTE = [
  bounded(
    [
      String.raw`wrote|writes|said|schrieb(?:en)?|geschrieben|a\s+écrit|écrit|escribi[óo]|escriviu|va\s+escriure|scritto|scrisse|escreveu`,
      String.raw`schreef|geschreven|skrev|skrifaði|kirjoitti|pisze|napisał(?:\(a\)|a|o)?|napsala?|napísala?|(?:napisao|napisala)(?:\s+je)?|missatge\s+de`,
      String.raw`scris|írta|yazdı|rašė|rakstīja|kirjutas|έγραψε|написала?|писала?|пишет|пише|написав|написа|viết|menulis|tulis`,
      String.raw`написал\(а\)|написав\(ла\)|napsal\(a\)|napísal\(a\)`,
    ].join('|'),
  ),
  'כתב|كتب|كتابة|เขียน|写道|写到|寫道|书写|のメッセージ|のメール|書きました|작성|썼습니다',
].join('|');

/** The start of a line above a quote: a preposition before a date, or a name for the message. */
export const LEAD_IN = bounded(
  [
    'on|at|in|am|vom|um|le|el|en|il|in\\s+data|em|a|op|den|d|dnia|w\\s+dniu|dne|dňa|pada|vào|στις|fecha|data|date|på',
    'în|la|na|no|missatge\\s+de|von|от|в|на|mensaje\\s+de|2\\d{3}',
  ].join('|'),
);
export const LEAD_IN_OTHER = '在|בתאריך|في|بتاريخ|ในวันที่|於|于';

/** The fields of a header that programs copy above the text they quote. */
const FIELDS = {
  from: String.raw`from|von|de|da|van|från|fra|frá|od|lähettäjä|от(?:\s+кого)?|від(?:\s+кого)?|kimden|gönderen|feladó|de\s+la|από|dari|từ|จาก|nuo|no|saatja|expéditeur|remitente|mittente|remetente|afzender|avsändare|nadawca|odesílatel|odosielateľ|差出人|送信者|发件人|寄件者|寄件人|发送者|보낸\s?사람|보낸이|מאת|من`,
  date: String.raw`sent|date|message\s+du|gesendet(?:\s+am)?|datum|envoyé(?:\s+le)?|date\s+d'envoi|enviado(?:\s+el|\s+em)?|enviada(?:\s+em)?|fecha|inviato|data|verzonden(?:\s+op)?|skickat|sendt|dato|lähetetty|päivämäärä|päiväys|wysłano|wysłane|odesláno|odoslané|dátum|elküldve|küldve|trimis|dată|tarih|gönderildi|gönderme\s+tarihi|дата|отправлено|отправлен|надіслано|ημερομηνία|στάλθηκε|tanggal|dikirim|ngày|đã\s+gửi|วันที่|ส่ง|日時|送信日時|送信日|日付|发送时间|发送日期|发件时间|寄件日期|傳送時間|日期|时间|時間|보낸\s?날짜|날짜|보낸\s?시간|נשלח|תאריך|تاريخ|التاريخ|تم\s+الإرسال`,
  to: String.raw`to|an|à|pour|a|para|aan|till|til|do|dla|komu|pro|vastaanottaja|кому|címzett|către|catre|kime|alıcı|προς|kepada|đến|tới|ถึง|destinataire|destinatario|destinatário|宛先|收件人|收件者|받는\s?사람|받는이|אל|إلى`,
  subject: String.raw`subject|betreff|objet|sujet|asunto|oggetto|assunto|onderwerp|ämne|emne|efni|temat|předmět|predmet|aihe|тема(?:\s+письма)?|tárgy|subiect|konu|θέμα|subjek|perihal|chủ\s+đề|เรื่อง|tema|件名|主题|主題|主旨|제목|נושא|الموضوع`,
  other: String.raw`cc|bcc|kopie|kopia|kopi|copie|copia|cópia|c\.c\.|копия|копія|másolat|kopio|bilgi|κοιν|reply-to|antwort\s+an|répondre\s+à|responder\s+a|rispondi\s+a|risposta|beantwoorden\s+-\s+aan|attachments?|anlagen?|pièces?\s+jointes?|adjuntos?|allegati|anexos?|bijlagen?|bilagor|bilagt|importance|priority|wichtigkeit|priorität|reply\s+to|抄送|副本|참조|附件|עותק`,
};
export type HeaderField = keyof typeof FIELDS;

const FIELD_START = String.raw`^[\s>*_\-•]{0,8}`;
const FIELD_END = String.raw`[*_]{0,2}\s?[:：][*_]{0,2}(?:\s|(?=\S)|$)`;

const FIELD_LINES = Object.entries(FIELDS).map(
  ([name, words]) => [name as HeaderField, new RegExp(`${FIELD_START}(?:${words})${FIELD_END}`, 'iu')] as const,
);

/** The field of a copied header that a line holds; undefined: none. */
export function fieldOf(line: string): HeaderField | undefined {
  return FIELD_LINES.find(([, expression]) => expression.test(line))?.[0];
}

/** Between dashes above a quoted message, or in a line without them (`Begin forwarded message:`). */
const MESSAGE = [
  String.raw`original\s+(?:message|e-?mail|appointment|mail)|reply\s+message|forwarded\s+(?:message|e-?mail|mail)|begin\s+forwarded\s+message|replied\s+message|message\s+from`,
  String.raw`ursprüngliche\s+(?:nachricht|e-?mail|mail)|originalnachricht|original-?nachricht|weitergeleitete\s+(?:nachricht|e-?mail)|anfang\s+der\s+weitergeleiteten\s+(?:nachricht|e-?mail)`,
  String.raw`message\s+d['’]origine|message\s+original|message\s+initial|message\s+transféré|message\s+transmis|début\s+du\s+message\s+(?:transféré|réexpédié)|courriel\s+original`,
  String.raw`mensaje\s+original|mensaje\s+reenviado|inicio\s+del\s+mensaje\s+reenviado|correo\s+original`,
  String.raw`messaggio\s+originale|messaggio\s+inoltrato|inizio\s+messaggio\s+inoltrato|messaggio\s+originario`,
  String.raw`mensagem\s+original|mensagem\s+(?:encaminhada|reencaminhada)|início\s+da\s+mensagem\s+(?:encaminhada|reencaminhada)`,
  String.raw`oorspronkelijk\s+bericht|origineel\s+bericht|doorgestuurd\s+bericht|begin\s+doorgestuurd\s+bericht`,
  String.raw`ursprungligt?\s+meddelande|originalmeddelande|vidarebefordrat\s+meddelande|vidarebefordrat\s+brev|(?:oprindelig|original|videresendt|opprinnelig)\s+(?:besked|meddelelse|melding|e-?mail|mail)|den\s+oprindelige\s+meddelelse`,
  String.raw`alkuperäinen\s+viesti|välitetty\s+viesti|wiadomość\s+oryginalna|oryginalna\s+wiadomość|(?:wiadomość\s+przekazana|przekazana\s+wiadomość|treść\s+przekazanej\s+wiadomości|początek\s+przekazywanej\s+wiadomości)`,
  String.raw`původní\s+zpráva|přeposlaná\s+zpráva|pôvodná\s+správa|eredeti\s+üzenet|továbbított\s+üzenet|mesaj\s+original|mesaj\s+redirecționat|orijinal\s+(?:mesaj|ileti)|özgün\s+ileti|iletilen\s+(?:mesaj|ileti)`,
  String.raw`исходное\s+сообщение|пересылаемое\s+сообщение|пересланное\s+сообщение|перенаправленное\s+сообщение|начало\s+переадресованного\s+сообщения|(?:конец\s+)?пересылаемого\s+сообщения|оригинальное\s+сообщение|вихідне\s+повідомлення|оригінальне\s+повідомлення|переслане\s+повідомлення|αρχικό\s+μήνυμα|προωθημένο\s+μήνυμα`,
  String.raw`pesan\s+asli|pesan\s+terusan|thư\s+gốc|元のメッセージ|元のメール|転送されたメッセージ|転送メッセージ|オリジナル\s?メッセージ|原始邮件|原邮件|邮件原件|转发的邮件|转发邮件|原始郵件|轉寄的郵件|轉寄郵件|回复的原邮件|원본\s?메시지|원본\s?메일|전달된\s?메시지|הודעה\s+מקורית|הודעה\s+שהועברה|الرسالة\s+الأصلية|رسالة\s+معاد\s+توجيهها`,
].join('|');

const DASHES = String.raw`[-_‐‑–—=]`;

/** A line above a quoted or forwarded message: `-----Original Message-----`, `Begin forwarded message:`. */
export const MESSAGE_LINE = new RegExp(
  String.raw`^[\s>*]{0,8}(?:${DASHES}{2,}\s*(?:${MESSAGE})[^-_‐–—=]{0,80}${DASHES}{2,}[\s*]*|(?:${MESSAGE})(?:\s?[:：]))$`,
  'iu',
);

/** "Sent from" at the start or at the end of a line that a program adds. */
const SENT_FROM = [
  String.raw`^(?:sent|gesendet|verschickt|versendet|envoyé|enviado|enviada|inviato|verzonden|verstuurd|skickat|sendt|lähetetty|wysłan[eo]|odesláno|odoslané|elküldve|trimis|отправлено|надіслано|στάλθηκε|dikirim|đã gửi)\s+(?:from|via|with|by|using|von|vom|mit|aus|de|depuis|à\s+partir|avec|desde|do|da|dal|con|pelo|vanaf|met|från|med|fra|z|ze|din|с|со|из|з|із|από|dari|từ)?`,
  String.raw`^von\s+(?:mein|unterwegs)|^diese\s+(?:nachricht|e-?mail)\s+wurde\s+von|^get\s|^from\s+my\s|^download\s|^télécharger|^obtener|^descargar|^obter|^scarica|^ottieni|^hämta|^hent|^pobierz|^загрузить|^скачать|^lataa|^laden\s+sie|^holen\s+sie|^outlook\s|^yahoo\s+mail|^发自|^發自|^來自|^来自|^從我的|^从我的|^获取|^取得|^나의|^내\s`,
].join('|');
const SENT_FROM_AT_END =
  'gesendet|から送信|からの送信|傳送|发送|에서\\s?보냄|gönderildi|を入手|herunterladen|laden|holen|beziehen';

const DEVICE = String.raw`i-?phone|i-?pad|i-?pod|iphones?|android|samsung|galaxy|black-?berry|huawei|xiaomi|redmi|nokia|htc|xperia|motorola|pixel|oneplus|(?:mobil|cell|smart|tele)?(?:phone|telefon\w*|fon)|mobile?\w*|handy|handset|téléphone|teléfono|telefone|telemóvel|celular|m[óo]vil|telefono|cellulare|tablet|device|gerät|appareil|dispositivo|toestel|enhet|laitteesta|outlook|yahoo|gmail|aol|proton\s?mail|mail|mailbox|windows|mac(?:book)?|gmx|web\.de|k-9|airmail|spark|superhuman|thunderbird|bluemail|typeapp|fairemail|телефона?|смартфона?|устройства|携帯|手机|手機|휴대폰|アプリ`;

const SENT_FROM_LINE = new RegExp(
  String.raw`(?:${SENT_FROM})\s*(?:[\p{L}\d.'’+-]+\s+){0,5}?(?:\S{0,3})(?:${DEVICE})\p{Ll}{0,5}(?![\p{L}])(?:[^,.;:!?]{0,40}|.{0,40}\b(?:typos?|brevity|excuse|errors|entschuldig\p{L}*|tippfehler|kürze)\b.{0,40})[.!]?$`,
  'iu',
);
/** A device that no list knows: `Sent from my Wiko Ridge 4G`. */
const SENT_FROM_OWN =
  /^(?:Sent (?:from|via) my|Envoyé depuis mon|Enviado desde mi|Enviado do meu|Inviato dal mio|Verstuurd vanaf mijn|Sendt fra min|Skickat från min)(?: [\p{Lu}\d][\p{L}\d.+-]*){1,5}\.?$/u;
const SENT_AT_END_LINE = new RegExp(String.raw`^.{0,40}(?:${DEVICE}).{0,40}(?:${SENT_FROM_AT_END})[.。]?$`, 'iu');

/** Whether a line is one that a program adds below the text: `Sent from my iPhone`, `Get Outlook for iOS`. */
export function isSentFromLine(line: string): boolean {
  const text = line
    .replace(/<[^<>\s]{1,500}>|\(https?:[^()\s]{1,500}\)|https?:\S{1,500}/g, '')
    .replace(/[[\]]/g, '')
    .trim();
  const hadLink = text.length < line.trim().length;
  const bare = text.replace(/^[(<*_\s]+|(?<![)>*_\s])[)>*_\s]+$/g, '');
  if (bare.length === 0 || bare.length > 100) return false;
  if ([SENT_FROM_LINE, SENT_FROM_OWN, SENT_AT_END_LINE].some((each) => each.test(bare))) return true;
  return hadLink && /^sent (?:from|via|with|using)(?: \S{1,30}){1,4}$/i.test(bare);
}

/** A closing alone in its line. */
export const CLOSING =
  /^[ \t]*(?:cheers|best wishes|(?:[\p{L}]{1,20}(?: and [\p{L}]{1,20})? )?regards|bien à vous|(?:[\p{L}]{1,20} )?cordialement|bonne (?:journée|soirée))[,!.！]{0,2}[ \t]*$/iu;
