import type { TranscriptionOptions } from '../../contracts/calls.ts'

/**
 * Languages as Whisper names them, by their code: ISO 639-1, or 639-3 where that has none (`haw`, `yue`). Names of
 * its tokenizer, `whisper/tokenizer.py` of openai/whisper; OpenAI's `verbose_json` answers with these words.
 */
const NAMES: Readonly<Record<string, string>> = {
  af: 'afrikaans',
  am: 'amharic',
  ar: 'arabic',
  as: 'assamese',
  az: 'azerbaijani',
  ba: 'bashkir',
  be: 'belarusian',
  bg: 'bulgarian',
  bn: 'bengali',
  bo: 'tibetan',
  br: 'breton',
  bs: 'bosnian',
  ca: 'catalan valencian',
  cs: 'czech',
  cy: 'welsh',
  da: 'danish',
  de: 'german',
  el: 'greek',
  en: 'english',
  es: 'spanish castilian',
  et: 'estonian',
  eu: 'basque',
  fa: 'persian',
  fi: 'finnish',
  fo: 'faroese',
  fr: 'french',
  gl: 'galician',
  gu: 'gujarati',
  ha: 'hausa',
  haw: 'hawaiian',
  he: 'hebrew',
  hi: 'hindi',
  hr: 'croatian',
  ht: 'haitian haitian_creole',
  hu: 'hungarian',
  hy: 'armenian',
  id: 'indonesian',
  is: 'icelandic',
  it: 'italian',
  ja: 'japanese',
  jv: 'javanese',
  ka: 'georgian',
  kk: 'kazakh',
  km: 'khmer',
  kn: 'kannada',
  ko: 'korean',
  la: 'latin',
  lb: 'luxembourgish letzeburgesch',
  ln: 'lingala',
  lo: 'lao',
  lt: 'lithuanian',
  lv: 'latvian',
  mg: 'malagasy',
  mi: 'maori',
  mk: 'macedonian',
  ml: 'malayalam',
  mn: 'mongolian',
  mr: 'marathi',
  ms: 'malay',
  mt: 'maltese',
  my: 'myanmar burmese',
  ne: 'nepali',
  nl: 'dutch flemish',
  nn: 'nynorsk',
  no: 'norwegian',
  oc: 'occitan',
  pa: 'punjabi panjabi',
  pl: 'polish',
  ps: 'pashto pushto',
  pt: 'portuguese',
  ro: 'romanian moldavian moldovan',
  ru: 'russian',
  sa: 'sanskrit',
  sd: 'sindhi',
  si: 'sinhala sinhalese',
  sk: 'slovak',
  sl: 'slovenian',
  sn: 'shona',
  so: 'somali',
  sq: 'albanian',
  sr: 'serbian',
  su: 'sundanese',
  sv: 'swedish',
  sw: 'swahili',
  ta: 'tamil',
  te: 'telugu',
  tg: 'tajik',
  th: 'thai',
  tk: 'turkmen',
  tl: 'tagalog',
  tr: 'turkish',
  tt: 'tatar',
  uk: 'ukrainian',
  ur: 'urdu',
  uz: 'uzbek',
  vi: 'vietnamese',
  yi: 'yiddish',
  yo: 'yoruba',
  yue: 'cantonese',
  zh: 'chinese mandarin',
}

const CODES: ReadonlyMap<string, string> = new Map(
  Object.entries(NAMES).flatMap(([code, names]) =>
    names.split(' ').map((name): [string, string] => [name.replaceAll('_', ' '), code]),
  ),
)

/** The word that `verbose_json` has for a language; the code itself where there is none. */
export function languageName(code: string): string {
  const [first = code] = (NAMES[code] ?? code).split(' ')
  return first.replaceAll('_', ' ')
}

/**
 * The code of a language given as a name ("english"), a code ("en", "eng", "yue") or a tag ("en-US"): ISO
 * 639-1, else 639-3, lower case. Null for anything else.
 */
export function languageCode(language: string): string | null {
  const word = language.trim().toLowerCase()
  const named = CODES.get(word)
  if (named !== undefined) return named
  const code = /^([a-z]{2,3})(?:[-_][a-z0-9_-]{1,20})?$/.exec(word)?.[1]
  return code === undefined ? null : shortest(code)
}

/** Replaces a language where a recording has several; it comes together with `detect_language`. */
export const SEVERAL_LANGUAGES = 'multi'

const LEFT_OUT = 'language: the provider does not take this language; it was left out'

/** A hint of the language as a provider is sent it, and the warning where it is not. */
export interface LanguageHint {
  /** Null: none is sent. */
  readonly language: string | null
  readonly warnings: readonly string[]
}

const NO_HINT: LanguageHint = { language: null, warnings: [] }

/**
 * The hint of a call in the words of a provider. One that is no language, or that the provider would refuse the whole
 * call for, is left out with a warning: a hint never ends a call.
 *
 * @param takes what is sent for a code of ISO 639, or the tag that it was in; null: it is not taken
 */
export function languageHint(
  { language, detect_language: detect }: Pick<TranscriptionOptions, 'language' | 'detect_language'>,
  takes: (code: string, tag: string) => string | null,
): LanguageHint {
  if (language === null || detect) return NO_HINT
  const code = languageCode(language)
  const sent = code === null || !isKnown(code) ? null : takes(code, language.trim())
  return sent === null ? { language: null, warnings: [LEFT_OUT] } : { language: sent, warnings: [] }
}

/**
 * A code of two letters that Whisper knows, which is what OpenAI and Groq take (ISO 639-1). Bokmål has no code of its
 * own there.
 */
export function whisperLanguage(code: string): string | null {
  const known = code === 'nb' ? 'no' : code
  return known.length === 2 && Object.hasOwn(NAMES, known) ? known : null
}

/** Names of languages in English, by which codes that are none are told from those that are; read when first asked. */
let english: Intl.DisplayNames | undefined

function isKnown(code: string): boolean {
  if (Object.hasOwn(NAMES, code)) return true
  english ??= new Intl.DisplayNames('en', { type: 'language', fallback: 'none' })
  return english.of(code) !== undefined
}

/** `eng` → `en`, for which the canonical form of a tag has the table; `haw` has no shorter form. */
function shortest(code: string): string {
  if (code.length === 2) return code
  const [canonical = code] = Intl.getCanonicalLocales(code)
  return canonical.length === 2 ? canonical : code
}
