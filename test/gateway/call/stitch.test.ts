import fc from 'fast-check'
import t from 'tap'
import type { TranscriptionResult, Word } from '../../../src/contracts/calls.ts'
import type { AudioPart } from '../../../src/contracts/parts.ts'
import { seamOf, stitched } from '../../../src/gateway/call/attempt/stitch.ts'

const NOTHING: TranscriptionResult = {
  text: '',
  language: 'en',
  languageConfidence: null,
  durationSeconds: null,
  segments: [],
  words: [],
  warnings: [],
}

/** What a provider hears of words that are a second long, one each second, in a stretch of them. */
function heard(words: readonly string[], startSeconds: number, endSeconds: number): TranscriptionResult {
  const inside = words.flatMap((word, at): Word[] =>
    at + 0.2 >= startSeconds && at + 0.8 <= endSeconds
      ? [{ word, start: at + 0.2 - startSeconds, end: at + 0.8 - startSeconds }]
      : [],
  )
  const segments = inside.map(({ word, start, end }, id) => ({ id, start, end, text: word }))
  return { ...NOTHING, text: inside.map(({ word }) => word).join(' '), words: inside, segments }
}

/** Parts of that, cut at these moments, with so much in common. */
function cut(seconds: number, cuts: readonly number[], overlap: number): Omit<AudioPart, 'audio'>[] {
  const moments = [0, ...cuts, seconds]
  return moments.slice(1).map((toSeconds, index) => ({
    startSeconds: Math.max(0, moments[index]! - (index === 0 ? 0 : overlap)),
    endSeconds: Math.min(seconds, toSeconds + (index === cuts.length ? 0 : overlap)),
    fromSeconds: moments[index]!,
    toSeconds,
    endsQuietly: overlap === 0,
  }))
}

function transcribe(words: readonly string[], cuts: readonly number[], overlap: number) {
  const parts = cut(words.length, cuts, overlap) as AudioPart[]
  return stitched(parts.map((part) => ({ part, result: heard(words, part.startSeconds, part.endSeconds) })))
}

const wordsOf = (count: number) => Array.from({ length: count }, (_, at) => `w${at}`)

t.test('whatever the cuts, each word is there once, at its time', async () => {
  await fc.assert(
    fc.property(
      fc.integer({ min: 20, max: 80 }),
      fc.array(fc.integer({ min: 6, max: 14 }), { maxLength: 6 }),
      fc.constantFrom(0, 2),
      (count, steps, overlap) => {
        const words = wordsOf(count)
        const cuts = steps
          .map((_, index) => steps.slice(0, index + 1).reduce((sum, step) => sum + step))
          .filter((moment) => moment < count - 5)
        // Silence is between the words; a cut within sound is in the middle of one.
        const moments = cuts.map((moment) => moment + (overlap === 0 ? 0 : 0.5))
        const { text, words: timed, segments } = transcribe(words, moments, overlap)
        const texts = [
          text,
          timed.map(({ word }) => word).join(' '),
          segments.map((one) => one.text).join(' '),
        ]
        for (const one of texts) if (one !== words.join(' ')) throw new Error(`${moments}: ${one}`)
        for (const [index, { start }] of timed.entries())
          if (Math.abs(start - index - 0.2) > 0.002) throw new Error(`${index} at ${start}`)
        if (segments.some(({ id }, index) => id !== index)) throw new Error('ids')
      },
    ),
    { numRuns: 500 },
  )
})

t.test('texts without times are sewn by the words that both sides have', async (t) => {
  const parts = cut(40, [20.5], 3) as AudioPart[]
  const words = wordsOf(40)
  const plain = (result: TranscriptionResult) => ({ ...result, words: [], segments: [] })
  const results = parts.map((part) => plain(heard(words, part.startSeconds, part.endSeconds)))
  const both = stitched(parts.map((part, index) => ({ part, result: results[index]! })))
  t.equal(both.text, words.join(' '))
  const broken = { ...results[0]!, text: `${results[0]!.text} w2` }
  const again = stitched([
    { part: parts[0]!, result: broken },
    { part: parts[1]!, result: { ...results[1]!, text: `7 ${results[1]!.text}` } },
  ])
  t.equal(again.text, words.join(' '), 'what the ends of parts break is left out')
})

t.test('what is said twice on both sides of a slow seam is there twice', async (t) => {
  const ask = (from: number) =>
    'and what do you think'.split(' ').map((word, at) => [word, from + at * 0.3] as const)
  const slow = [
    ['hm', 58.3],
    ['nothing', 59.3],
    ['really', 60.4],
    ['frankly', 61.4],
  ] as const
  const resultOf = (timed: readonly (readonly [string, number])[], startSeconds: number) => {
    const words = timed.map(([word, at]) => ({
      word,
      start: at - startSeconds,
      end: at - startSeconds + 0.3,
    }))
    return { ...NOTHING, text: timed.map(([word]) => word).join(' '), words }
  }
  const [left, right] = cut(120, [60], 2) as AudioPart[]
  const { text, words } = stitched([
    { part: left!, result: resultOf([...ask(55), ...slow], 0) },
    { part: right!, result: resultOf([...slow, ...ask(63)], 58) },
  ])
  t.equal(text, 'and what do you think hm nothing really frankly and what do you think')
  t.equal(words.map(({ word }) => word).join(' '), text)
})

t.test('a seam is the longest run, and the later of two', async (t) => {
  t.same(seamOf(['a', 'b', 'c', 'x'], ['b', 'c', 'd'], 10), { dropTail: 1, dropHead: 2 })
  t.same(seamOf(['a', 'b'], ['c', 'd'], 10), null)
  t.same(seamOf(['yes', 'no', 'yes'], ['yes', 'well'], 10), { dropTail: 0, dropHead: 1 })
})

t.test('nothing is pretended of speakers, languages and figures', async (t) => {
  const [left, right] = cut(40, [20], 0) as [AudioPart, AudioPart]
  const segment = { id: 0, start: 1, end: 2, text: 'one', speaker: 'A', channel: 1 }
  const made = stitched([
    {
      part: left,
      result: {
        ...NOTHING,
        text: 'one',
        segments: [segment],
        language: 'de',
        languageConfidence: 0.9,
        warnings: ['a: b'],
      },
    },
    {
      part: { ...right, toSeconds: 60 },
      result: { ...NOTHING, text: 'two', languageConfidence: 0.5, figures: [], warnings: ['a: b'] },
    },
  ])
  t.same(
    made.segments,
    [{ id: 0, start: 1, end: 2, text: 'one', channel: 1, language: 'de' }],
    'speakers of parts are not the same',
  )
  t.equal(made.language, 'en', 'that of most seconds')
  t.equal(made.languageConfidence, 0.5)
  t.same(made.warnings, ['a: b', 'language: the parts are in de, en; the one of most seconds is named'])
  t.equal(made.durationSeconds, 60)
  t.notHas(made, { figures: [] })
  const chinese = stitched([
    { part: left, result: { ...NOTHING, text: '你好。' } },
    { part: right, result: { ...NOTHING, text: '世界' } },
  ])
  t.equal(chinese.text, '你好。世界')
  t.equal(
    stitched([
      { part: left, result: NOTHING },
      { part: right, result: NOTHING },
    ]).text,
    '',
    'silence',
  )
})
