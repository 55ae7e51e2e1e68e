import t from 'tap'
import type { Segment, Word } from '../../../src/contracts/calls.ts'
import { mergeChannels, segmentsOf } from '../../../src/gateway/providers/segments.ts'
import { labelSpeakers } from '../../../src/gateway/providers/speakers.ts'

/** Words of half a second each, one after the other, from `start`. */
function spoken(text: string, start = 0, more: Partial<Word> = {}): Word[] {
  return text
    .split(' ')
    .map((word, index) => ({ word, start: start + index / 2, end: start + index / 2 + 0.5, ...more }))
}

const texts = (segments: readonly Segment[]) => segments.map(({ text }) => text)

t.test('a segment ends where a sentence, a speaker, a channel or the talking ends', async (t) => {
  const two = 'One two three. Four five six.'
  t.same(segmentsOf(spoken(two), two), [
    { id: 0, start: 0, end: 1.5, text: 'One two three.' },
    { id: 1, start: 1.5, end: 3, text: 'Four five six.' },
  ])
  const rows: [string, Word[], string[]][] = [
    ['a short sentence', spoken('Yes. I do.'), ['Yes. I do.']],
    ['a quoted one', spoken('He said "no one." Then he left.'), ['He said "no one."', 'Then he left.']],
    ['an Arabic one', spoken('هل انت هنا؟ نعم انا'), ['هل انت هنا؟', 'نعم انا']],
    ['a silence', [...spoken('one two'), ...spoken('three', 2)], ['one two', 'three']],
    ['a breath', [...spoken('one two'), ...spoken('three', 1.9)], ['one two three']],
    [
      'another speaker',
      [...spoken('one', 0, { speaker: 'A' }), ...spoken('two', 0.5, { speaker: 'B' })],
      ['one', 'two'],
    ],
    [
      'another channel',
      [...spoken('one', 0, { channel: 0 }), ...spoken('two', 0.5, { channel: 1 })],
      ['one', 'two'],
    ],
  ]
  for (const [name, words, expected] of rows) {
    const text = words.map(({ word }) => word).join(' ')
    t.same(texts(segmentsOf(words, text)), expected, name)
  }
  t.same(segmentsOf([], ''), [])
})

t.test('no segment grows beyond what can be read at once', async (t) => {
  const slow = segmentsOf(spoken(Array(100).fill('la').join(' ')), Array(100).fill('la').join(' '))
  t.ok(slow.length > 3)
  for (const { start, end } of slow) t.ok(end - start <= 12)
  const quick = Array.from({ length: 200 }, (_, index) => ({
    word: 'abcdefgh',
    start: index / 100,
    end: index / 100,
  }))
  for (const { text } of segmentsOf(quick, '')) t.ok(text.length <= 160)
})

t.test('a segment is written as its text stands', async (t) => {
  const japanese = ['今日は', '晴れです。', '明日は', '雨です。'].map((word, index) => ({
    word,
    start: index,
    end: index + 1,
  }))
  t.same(texts(segmentsOf(japanese, '今日は晴れです。明日は雨です。')), [
    '今日は晴れです。',
    '明日は雨です。',
  ])
  t.same(texts(segmentsOf(spoken('a b c'), 'a\n b  c')), ['a b c'], 'blanks of all kinds are one')
  t.same(texts(segmentsOf(spoken('a b c'), 'a – b – c')), ['a – b – c'])
  t.same(texts(segmentsOf(spoken('a b c'), 'x y')), ['a b c'], 'words that are not in the text')
  t.same(texts(segmentsOf(spoken('a b'), `a ${'-'.repeat(500)} b`)), ['a b'], 'a word that is far away')
  const repeated = 'no no no. no no no.'
  t.same(texts(segmentsOf(spoken(repeated), repeated)), ['no no no.', 'no no no.'], 'each word once')
})

t.test('what no word covers is written all the same', async (t) => {
  const parts = (text: string, ...starts: [string, number][]) =>
    texts(
      segmentsOf(
        starts.flatMap(([word, start]) => spoken(word, start)),
        text,
      ),
    )
  t.same(parts('lost a b', ['a', 5], ['b', 9]), ['lost a', 'b'], 'before the first')
  t.same(parts('a lost b', ['a', 0], ['b', 9]), ['a lost', 'b'], 'between two')
  t.same(parts('a b lost.', ['a', 0], ['b', 9]), ['a', 'b lost.'], 'behind the last')
  t.same(parts('a. “b” c', ['a', 0], ['b', 9], ['c', 20]), ['a.', '“b”', 'c'], 'quotes open what they quote')
})

t.test('channels whose segments lack a word are told one after the other', async (t) => {
  const segment = (id: number, start: number, text: string) => ({ id, start, end: start + 1, text })
  const lacking = { text: 'one two three', words: [], segments: [segment(0, 3, 'one three')] }
  const whole = { text: 'Yes. No.', words: [], segments: [segment(0, 0, 'yes'), segment(1, 9, 'no')] }
  t.equal(mergeChannels([lacking, whole]).text, 'Yes. No. one two three')
  t.equal(mergeChannels([whole]).text, 'yes no', 'case and punctuation may differ')
})

t.test('confidence is the mean, where every word has one', async (t) => {
  const [first, second] = spoken('a b')
  t.equal(
    segmentsOf(
      [
        { ...first!, confidence: 0.5 },
        { ...second!, confidence: 1 },
      ],
      'a b',
    )[0]?.confidence,
    0.75,
  )
  t.notOk('confidence' in segmentsOf([{ ...first!, confidence: 0.5 }, second!], 'a b')[0]!)
})

t.test('channels are told in the order of time', async (t) => {
  const channel = (at: number, text: string, start: number) => {
    const words = spoken(text, start, { channel: at })
    return { text, words, segments: segmentsOf(words, text) }
  }
  const merged = mergeChannels([channel(0, 'how are you', 2), channel(1, 'fine', 10), channel(2, 'hello', 0)])
  t.equal(merged.text, 'hello how are you fine')
  t.same(
    merged.segments.map(({ id, channel: at }) => [id, at]),
    [
      [0, 2],
      [1, 0],
      [2, 1],
    ],
  )
  t.same(
    merged.words.map(({ word }) => word),
    ['hello', 'how', 'are', 'you', 'fine'],
  )
  t.same(mergeChannels([]), { text: '', segments: [], words: [] })
})

t.test('speakers are numbered as they begin to speak', async (t) => {
  const words = [
    ...spoken('late', 5, { speaker: 'A' }),
    ...spoken('first', 0, { speaker: 'spk_7' }),
    ...spoken('nobody', 1),
  ]
  const labelled = labelSpeakers(words, segmentsOf(words, ''))
  t.same(
    labelled.words.map(({ speaker }) => speaker),
    ['speaker_1', 'speaker_0', undefined],
  )
  t.same(
    labelled.segments.map(({ speaker }) => speaker),
    ['speaker_1', 'speaker_0', undefined],
  )
  const taken = labelSpeakers(
    spoken('a', 0, { speaker: 'speaker_1' }).concat(spoken('b', 1, { speaker: 'speaker_0' })),
    [],
  )
  t.same(
    taken.words.map(({ speaker }) => speaker),
    ['speaker_0', 'speaker_1'],
    'labels of our own style are numbered anew',
  )
})
