/*
 * HTML made from plain text. Mail is hostile: every expression here is linear in the length of the text.
 */

const ESCAPES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };
const LINK = /\bhttps?:\/\/[^\s<>"'\u0000-\u0020]{1,2000}/gi;
const AFTER_LINK = /[.,;:!?)\]}*_]+$/;

/** Text with the five characters escaped that mean something in HTML. */
export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (char) => ESCAPES[char] ?? char);
}

/** An HTML rendering of plain text: paragraphs, line breaks, http(s) links; runs of spaces survive. '' of blank text. */
export function textToHtml(text: string): string {
  const lines = text.replace(/\r\n?/g, '\n').split('\n');
  const paragraphs: string[][] = [[]];
  for (const line of lines) {
    if (line.trim() === '') paragraphs.push([]);
    else paragraphs.at(-1)?.push(renderLine(line.trimEnd()));
  }
  return paragraphs
    .filter((paragraph) => paragraph.length > 0)
    .map((paragraph) => `<p>${paragraph.join('<br/>\n')}</p>`)
    .join('\n');
}

function renderLine(line: string): string {
  let html = '';
  let end = 0;
  for (const match of line.matchAll(LINK)) {
    const url = match[0].replace(AFTER_LINK, '');
    html += `${escapeHtml(line.slice(end, match.index))}<a href="${escapeHtml(url)}">${escapeHtml(url)}</a>`;
    end = match.index + url.length;
  }
  html += escapeHtml(line.slice(end));
  return html.replace(/^ | (?= )/g, '&nbsp;').replaceAll('\t', '&nbsp;&nbsp;&nbsp; ');
}
