/**
 * International Morse code, Recommendation ITU-R M.1677-1, part I. The multiplication sign is left out, since
 * it sounds like x. The exclamation mark is not in the recommendation, but in wide use.
 */
const SYMBOLS: Readonly<Record<string, string>> = {
  a: '.-',
  b: '-...',
  c: '-.-.',
  d: '-..',
  e: '.',
  é: '..-..',
  f: '..-.',
  g: '--.',
  h: '....',
  i: '..',
  j: '.---',
  k: '-.-',
  l: '.-..',
  m: '--',
  n: '-.',
  o: '---',
  p: '.--.',
  q: '--.-',
  r: '.-.',
  s: '...',
  t: '-',
  u: '..-',
  v: '...-',
  w: '.--',
  x: '-..-',
  y: '-.--',
  z: '--..',
  '0': '-----',
  '1': '.----',
  '2': '..---',
  '3': '...--',
  '4': '....-',
  '5': '.....',
  '6': '-....',
  '7': '--...',
  '8': '---..',
  '9': '----.',
  '.': '.-.-.-',
  ',': '--..--',
  ':': '---...',
  '?': '..--..',
  "'": '.----.',
  '-': '-....-',
  '/': '-..-.',
  '(': '-.--.',
  ')': '-.--.-',
  '"': '.-..-.',
  '=': '-...-',
  '+': '.-.-.',
  '@': '.--.-.',
  '!': '-.-.--',
}

const CHARACTERS: ReadonlyMap<string, string> = new Map(
  Object.entries(SYMBOLS).map(([character, symbol]) => [symbol, character]),
)

/** Lengths in units, of which the dot is one. */
export const DASH_UNITS = 3
export const CHARACTER_GAP_UNITS = 3
export const WORD_GAP_UNITS = 7

/** Words per minute of ordinary speech; a word is the 50 units of "paris ". */
const WORDS_PER_MINUTE = 25

/** Seconds of one unit at a speed, which multiplies the words per minute. */
export function unitSeconds(speed: number): number {
  return 60 / (50 * WORDS_PER_MINUTE * speed)
}

/** Every character that has a symbol, but for the space between words. */
export const ALPHABET: readonly string[] = Object.keys(SYMBOLS)

/** A stretch of tone or silence. */
export interface Mark {
  readonly tone: boolean
  readonly units: number
}

/** The text holds characters that Morse code does not have. */
export class UnspeakableError extends Error {
  override readonly name = 'UnspeakableError'
}

/**
 * Text as tone and silence, without silence at either end. Case is lost; white space of any length is one
 * word gap.
 *
 * @throws UnspeakableError for a character without a symbol, and for text without any character
 */
export function encodeMorse(text: string): Mark[] {
  const marks: Mark[] = []
  for (const word of text.toLowerCase().normalize('NFC').split(/\s+/)) {
    if (word === '') continue
    if (marks.length > 0) marks.push({ tone: false, units: WORD_GAP_UNITS })
    for (const [index, character] of [...word].entries()) {
      const symbol = SYMBOLS[character]
      if (symbol === undefined) throw new UnspeakableError(`Morse code has no ${JSON.stringify(character)}`)
      if (index > 0) marks.push({ tone: false, units: CHARACTER_GAP_UNITS })
      for (const [place, sign] of [...symbol].entries()) {
        if (place > 0) marks.push({ tone: false, units: 1 })
        marks.push({ tone: true, units: sign === '-' ? DASH_UNITS : 1 })
      }
    }
  }
  if (marks.length === 0) throw new UnspeakableError('there is nothing to say')
  return marks
}

/** The character of a symbol such as `.-`; null for a symbol that stands for none. */
export function characterOf(symbol: string): string | null {
  return CHARACTERS.get(symbol) ?? null
}

const SPEAKABLE = new Set(ALPHABET)
const SYMBOL = /^[.-]{1,7}$/

/** Morse code in writing: `.... .. / - .... . .-. .` A character without a symbol is left out. */
export function toDots(text: string): string {
  const words = speakableWords(text).map((word) =>
    Array.from(word, (character) => SYMBOLS[character]).join(' '),
  )
  return words.join(' / ')
}

/** Decodes written Morse code; null for any other text. */
export function fromDots(text: string): string | null {
  const words = text.split('/').map((word) =>
    word
      .trim()
      .split(/\s+/)
      .map((symbol) => (SYMBOL.test(symbol) ? characterOf(symbol) : null)),
  )
  if (words.some((word) => word.length === 0 || word.includes(null))) return null
  return words.map((word) => word.join('')).join(' ')
}

/** The text without what Morse code cannot say, words apart by one space. */
export function speakable(text: string): string {
  return speakableWords(text).join(' ')
}

/** Like `encodeMorse`, of what can be said; null when that is nothing. */
export function marksOf(text: string): Mark[] | null {
  try {
    return encodeMorse(speakable(text))
  } catch (error) {
    if (error instanceof UnspeakableError) return null
    throw error
  }
}

function speakableWords(text: string): string[] {
  return text
    .toLowerCase()
    .normalize('NFC')
    .split(/\s+/)
    .map((word) => [...word].filter((character) => SPEAKABLE.has(character)).join(''))
    .filter((word) => word !== '')
}
