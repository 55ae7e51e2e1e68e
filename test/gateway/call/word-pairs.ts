import { randomInt } from 'node:crypto'
import { Dice } from '../../support/dice.ts'

export const SEED = Number(process.env.WORDS_SEED ?? randomInt(2 ** 32))
const PAIRS = 400
const VOCABULARY = 'the a of to and in is that it was for on with he she they you at by from'.split(' ')

function drawWords(dice: Dice, most: number): string[] {
  const vocabulary = VOCABULARY.slice(0, 1 + dice.below(VOCABULARY.length))
  return Array.from({ length: dice.below(most + 1) }, () => dice.one(vocabulary))
}

/** The same with words put in, left out and changed. */
function misheard(dice: Dice, words: readonly string[]): string[] {
  const rate = dice.roll()
  return words.flatMap((word) => {
    if (!dice.chance(rate)) return [word]
    return dice.one([[], [word, dice.one(VOCABULARY)], [dice.one(VOCABULARY)]])
  })
}

/** Texts and what each is heard as, of no word to some 300: several times 32, the words that are counted together. */
export function drawPairs(): (readonly [string, string])[] {
  const dice = new Dice(SEED)
  return Array.from({ length: PAIRS }, (_, index) => {
    const one = drawWords(dice, index < 200 ? 40 : 300)
    const other = dice.chance(0.7) ? misheard(dice, one) : drawWords(dice, 300)
    return [one.join(' '), other.join(' ')] as const
  })
}
