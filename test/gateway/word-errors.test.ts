import { execFileSync, spawnSync } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import t from 'tap'
import { COMPARED_WORDS_MAX, countWordErrors, spokenWords } from '../../src/gateway/word-errors.ts'
import { Dice } from '../support/dice.ts'

const SEED = Number(process.env.WORDS_SEED ?? randomInt(2 ** 32))
const PAIRS = 400
const VOCABULARY = 'the a of to and in is that it was for on with he she they you at by from'.split(' ')

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
function drawPairs(): (readonly [string, string])[] {
  const dice = new Dice(SEED)
  return Array.from({ length: PAIRS }, (_, index) => {
    const one = drawWords(dice, index < 200 ? 40 : 300)
    const other = dice.chance(0.7) ? misheard(dice, one) : drawWords(dice, 300)
    return [one.join(' '), other.join(' ')] as const
  })
}

t.test(`${PAIRS} pairs by the whole table`, async (t) => {
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

const hasJiwer = spawnSync('python3', ['-c', 'import jiwer']).status === 0
const JIWER = `
import json, sys, jiwer
print(json.dumps([jiwer.wer(one, other) for one, other in json.load(sys.stdin)]))`

t.test('50 pairs by jiwer', { skip: hasJiwer ? false : 'Python has no jiwer' }, async (t) => {
  // jiwer has no rate for a text without a word.
  const pairs = drawPairs()
    .filter(([one]) => one !== '')
    .slice(0, 50)
  const rates = JSON.parse(
    execFileSync('python3', ['-c', JIWER], { input: JSON.stringify(pairs) }).toString(),
  )
  for (const [index, [one, other]] of pairs.entries()) {
    const { words, errors } = (await countWordErrors(one, other))!
    t.ok(Math.abs(errors / words - rates[index]) < 1e-9, `${errors} of ${words}: ${rates[index]}`)
  }
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
  let turns = 0
  let isOver = false
  const others = (async () => {
    while (!isOver) {
      turns += 1
      await nextTurn()
    }
  })()
  const counted = await countWordErrors(long.join(' '), heard.join(' '))
  isOver = true
  await others
  const changed = long.filter((word, index) => word !== heard[index]).length
  t.ok(counted!.errors <= changed && counted!.errors > changed / 2, `${counted!.errors} of ${changed}`)
  t.ok(turns > 20, `others had ${turns} turns`)
  const tooLong = 'a '.repeat(COMPARED_WORDS_MAX + 1)
  t.equal(await countWordErrors(tooLong, 'a'), null)
  t.equal(await countWordErrors('a', tooLong), null)
  t.equal(await countWordErrors('a', 'b'.repeat(COMPARED_WORDS_MAX * 16 + 1)), null)
})
