import t from 'tap'
import {
  COMPARED_WORDS_MAX,
  countWordErrors,
  spokenWords,
} from '../../../src/gateway/call/compare/word-errors.ts'
import { Dice } from '../../support/dice.ts'
import { turnsWithin } from '../../support/loop-turns.ts'
import { drawPairs, SEED } from './word-pairs.ts'

/** The whole table, cell by cell. */
function levenshtein(one: readonly string[], other: readonly string[]): number {
  let row = other.map((_, index) => index + 1)
  for (const [index, word] of one.entries()) {
    let diagonal = index
    let left = index + 1
    row = row.map((above, column) => {
      const best = Math.min(above + 1, left + 1, diagonal + Number(other[column] !== word))
      diagonal = above
      left = best
      return best
    })
  }
  return row.at(-1) ?? one.length
}

t.test('400 pairs by the whole table', async (t) => {
  t.comment(`WORDS_SEED=${SEED}`)
  let far = 0
  for (const [one, other] of drawPairs()) {
    const wanted = levenshtein(spokenWords(one), spokenWords(other))
    const counted = await countWordErrors(one, other)
    t.same(counted, { words: spokenWords(one).length, errors: wanted }, `${one} | ${other}`)
    if (wanted > 32) far += 1
  }
  t.ok(far > 30, `${far} of them are far from one another`)
})

t.test('how words are taken', async (t) => {
  const same: readonly (readonly [string, string])[] = [
    ['Hello, World!', 'hello world'],
    ["It’s 5 o'clock.", "it's 5 o’clock"],
    ['ﬁne', 'fine'],
    ['  twenty-one\n', 'twenty one'],
    ['你好，世界', '你好 世界'],
    ['', ' … '],
  ]
  for (const [one, other] of same)
    t.match(await countWordErrors(one, other), { errors: 0 }, `${one} | ${other}`)
  t.same(await countWordErrors('', 'one two'), { words: 0, errors: 2 })
  t.same(await countWordErrors('one two', ''), { words: 2, errors: 2 })
  t.same(await countWordErrors('你好世界', '你好时界'), { words: 4, errors: 1 })
  t.same(await countWordErrors('a b c d', 'x a b d'), { words: 4, errors: 2 })
})

t.test('a text of hours holds nobody up, and a longer one is not compared', async (t) => {
  const dice = new Dice(1)
  const long = Array.from({ length: 12_000 }, () => `w${dice.below(3_000)}`)
  const heard = long.map((word) => (dice.chance(0.3) ? `w${dice.below(3_000)}` : word))
  const compared = await turnsWithin(() => countWordErrors(long.join(' '), heard.join(' ')))
  const { turns, result: counted } = compared
  const changed = long.filter((word, index) => word !== heard[index]).length
  t.ok(counted!.errors <= changed && counted!.errors > changed / 2, `${counted!.errors} of ${changed}`)
  t.ok(turns > 20, `others had ${turns} turns`)
  const tooLong = 'a '.repeat(COMPARED_WORDS_MAX + 1)
  t.equal(await countWordErrors(tooLong, 'a'), null)
  t.equal(await countWordErrors('a', tooLong), null)
  t.equal(await countWordErrors('a', 'b'.repeat(COMPARED_WORDS_MAX * 16 + 1)), null)
})
