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
export const WORDS_PER_MINUTE = 25

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

/** What cannot be said in Morse code. */
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
