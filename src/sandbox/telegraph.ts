import { ALPHABET, characterOf, encodeMorse, type Mark, UnspeakableError } from './morse.ts'

const SPEAKABLE = new Set(ALPHABET)
const SYMBOL = /^[.-]{1,7}$/

/** Morse code in writing: `.... .. / - .... . .-. .` A character without a symbol is left out. */
export function toDots(text: string): string {
  const words = speakableWords(text).map((word) => [...word].map(dotsOf).join(' '))
  return words.join(' / ')
}

/** What Morse code in writing says; null for a text that is none. */
export function fromDots(text: string): string | null {
  const words = text
    .trim()
    .split(/\s*\/\s*/)
    .map((word) => word.split(/\s+/).map((symbol) => (SYMBOL.test(symbol) ? characterOf(symbol) : null)))
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

function dotsOf(character: string): string {
  return encodeMorse(character)
    .filter(({ tone }) => tone)
    .map(({ units }) => (units === 1 ? '.' : '-'))
    .join('')
}
