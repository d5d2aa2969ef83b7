/** No two adjacent `\s*`: they would take time in the square of a run of blanks. */
const REMOTE = /(?:src|srcset|background)\s*=\s*(?:["']\s*)?(?:https?:)?\/\/|url\(\s*(?:["']\s*)?(?:https?:)?\/\//i;

/** Whether the HTML of an email names pictures that are loaded from elsewhere; its time is linear in the length. */
export const asksForImages = (html: string): boolean => REMOTE.test(html);
