/** The languages of the connect page; web/src/connect/language.ts has the same. */
export const LANGUAGES = ['en', 'de', 'fr', 'es', 'it', 'nl', 'pl', 'ja'] as const;
export type Language = (typeof LANGUAGES)[number];

/** More is not looked at. */
const MAX_HEADER = 500;

/** The language that a browser prefers of those that the page has (RFC 9110, 12.5.4), whatever the region; English without one. */
export function preferredLanguage(acceptLanguage: string | undefined): Language {
  const ranges = (acceptLanguage ?? '').slice(0, MAX_HEADER).split(',').map(rangeOf);
  const [best] = ranges
    .flatMap(({ name, weight }) =>
      LANGUAGES.filter((language) => language === name && weight > 0).map((language) => ({ language, weight })),
    )
    .sort((a, b) => b.weight - a.weight);
  return best?.language ?? 'en';
}

/** `de-AT;q=0.8`: its language, and how much it is wanted. */
function rangeOf(range: string): { name: string; weight: number } {
  const [tag = '', ...parameters] = range.split(';').map((part) => part.trim().toLowerCase());
  const weight = parameters.find((parameter) => parameter.startsWith('q='));
  return { name: tag.split('-')[0] ?? '', weight: weight === undefined ? 1 : Number(weight.slice(2)) || 0 };
}
