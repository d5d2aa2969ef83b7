import { createContext } from 'preact';
import { useContext } from 'preact/hooks';
import { type Texts, texts as english } from './texts/en.ts';

/** The languages of the connect page, by their own names; src/api/language.ts has the same. */
export const LANGUAGES = {
  en: 'English',
  de: 'Deutsch',
  fr: 'Français',
  es: 'Español',
  it: 'Italiano',
  nl: 'Nederlands',
  pl: 'Polski',
  ja: '日本語',
} as const;
export type Language = keyof typeof LANGUAGES;

const LOAD: Record<Language, () => Promise<{ texts: Texts }>> = {
  en: () => Promise.resolve({ texts: english }),
  de: () => import('./texts/de.ts'),
  fr: () => import('./texts/fr.ts'),
  es: () => import('./texts/es.ts'),
  it: () => import('./texts/it.ts'),
  nl: () => import('./texts/nl.ts'),
  pl: () => import('./texts/pl.ts'),
  ja: () => import('./texts/ja.ts'),
};

const KEY = 'language';
const isLanguage = (name: string | null): name is Language => name !== null && Object.hasOwn(LANGUAGES, name);

/** The language that was chosen in this tab; else the one that the server took from `Accept-Language`. */
export function firstLanguage(): Language {
  const [chosen, negotiated] = [sessionStorage.getItem(KEY), document.documentElement.lang];
  if (isLanguage(chosen)) return chosen;
  return isLanguage(negotiated) ? negotiated : 'en';
}

/** Remembers the language for this tab, also over a sign-in at the provider. */
export function chooseLanguage(language: Language): void {
  sessionStorage.setItem(KEY, language);
}

/** The texts of a language, English when they cannot be loaded; the page then says which language it has. */
export async function loadTexts(language: Language): Promise<{ language: Language; texts: Texts }> {
  const loaded = await LOAD[language]().then(
    ({ texts }) => ({ language, texts }),
    () => ({ language: 'en' as const, texts: english }),
  );
  document.documentElement.lang = loaded.language;
  return loaded;
}

export const InLanguage = createContext<Texts>(english);

/** The texts of the page; the dashboard, which has no others, gets the English ones. */
export const useTexts = (): Texts => useContext(InLanguage);

/** A name from elsewhere, with a direction of its own inside of a sentence (Unicode isolates). */
export const isolated = (name: string): string => `\u2068${name}\u2069`;
