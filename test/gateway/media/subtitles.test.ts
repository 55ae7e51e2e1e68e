import t from 'tap'
import type { Segment, SubtitleRules, Word } from '../../../src/contracts/calls.ts'
import { renderTranscript } from '../../../src/gateway/media/render.ts'
import { subtitleSegments } from '../../../src/gateway/media/subtitles.ts'
import { Dice } from '../../support/dice.ts'

const RULES: SubtitleRules = { lineLength: 42, lines: 2, charactersPerSecond: 20 }

const segment = (start: number, end: number, text: string, more: Partial<Segment> = {}): Segment => ({
  ...{ id: 0, start, end, text },
  ...more,
})

/** Words one after the other, of a length each. */
const wordsOf = (text: string, start: number, seconds: number, more: Partial<Word> = {}): Word[] =>
  text.split(' ').map((word, at) => {
    return { word, start: start + at * seconds, end: start + (at + 1) * seconds, ...more }
  })

const cut = (segments: Segment[], words: Word[] = [], rules: Partial<SubtitleRules> = {}) =>
  subtitleSegments({ segments, words }, { ...RULES, ...rules }).map(({ start, end, text }) => [
    Number(start.toFixed(2)),
    Number(end.toFixed(2)),
    text,
  ])

t.test('a long segment becomes subtitles of lines that are as even as they can be', async (t) => {
  const text =
    'The quick brown fox jumps over the lazy dog and then it goes on to see what the neighbours have to say about it'
  t.same(cut([segment(0, 24, text)], wordsOf(text, 0, 1)), [
    [0, 7, 'The quick brown fox jumps over the'],
    [7, 14, 'lazy dog and then it goes on'],
    [14, 21, 'to see what the neighbours have to'],
    [21, 24, 'say about it'],
  ])
  const fast = cut([segment(0, 4.8, text)], wordsOf(text, 0, 0.2))
  t.same(
    fast.map(([, , lines]) => lines),
    [
      'The quick brown fox jumps over the lazy\ndog and then it goes on to see what the',
      'neighbours have to say about it',
    ],
  )
})

t.test('a subtitle ends with a sentence, a pause, a speaker and a channel', async (t) => {
  const text = 'It is late. We have to go now.'
  t.same(cut([segment(0, 8, text)], wordsOf(text, 0, 1)), [
    [0, 3, 'It is late.'],
    [3, 8, 'We have to go now.'],
  ])
  const words = [...wordsOf('one two', 0, 0.5), ...wordsOf('three', 3, 0.5)]
  t.same(cut([segment(0, 3.5, 'one two three')], words), [
    [0, 1, 'one two'],
    [3, 4, 'three'],
  ])
  const speakers = [segment(0, 0.5, 'yes', { speaker: 'A' }), segment(0.5, 1, 'no', { speaker: 'B' })]
  t.same(cut(speakers), [
    [0, 0.5, 'yes'],
    [0.5, 1.5, 'no'],
  ])
  const channels = [segment(0, 1, 'left', { channel: 0 }), segment(0, 1, 'right', { channel: 1 })]
  t.same(
    cut(channels, [...wordsOf('left', 0, 1, { channel: 0 }), ...wordsOf('right', 0, 1, { channel: 1 })]),
    [
      [0, 1, 'left'],
      [0, 1, 'right'],
    ],
  )
})

t.test('a subtitle stays until it can be read, where the next leaves room', async (t) => {
  const quick = 'unbelievably extraordinary circumstances'
  const alone = [segment(10, 10.6, quick)]
  t.same(cut(alone, [], { charactersPerSecond: 10 }), [[10, 14, quick]])
  t.same(cut([...alone, segment(12.2, 13, 'so')], [], { charactersPerSecond: 10 }), [
    [10, 12.12, quick],
    [12.2, 13.2, 'so'],
  ])
  t.same(cut([segment(1, 1.2, 'ah')]), [[1, 2, 'ah']], 'a second at least')
})

t.test('texts keep their punctuation, whatever the words of a provider lack', async (t) => {
  const words = wordsOf('well i never', 0, 1)
  t.same(cut([segment(0, 3, 'Well, I never!')], words), [[0, 3, 'Well, I never!']])
  const missing = words.slice(0, 2)
  t.same(
    cut([segment(0, 12, 'aaaa aaaa aaaa')], missing, { lineLength: 10, lines: 1 }),
    [
      [0, 4, 'aaaa'],
      [4, 8, 'aaaa'],
      [8, 12, 'aaaa'],
    ],
    'by the length of the texts where the words are others',
  )
})

t.test('writing without spaces is cut between characters', async (t) => {
  const text = '今日は天気がいいから散歩に行きましょう'
  const [first, ...others] = cut([segment(0, 9.5, text)], [], { lineLength: 10, lines: 1 })
  t.same([first, ...others].map((cue) => cue?.[2]).join(''), text)
  t.ok([first, ...others].every((cue) => [...String(cue?.[2])].length <= 10))
})

t.test('every rule holds, and nothing is lost, whatever is said', async (t) => {
  const dice = new Dice(23)
  for (let round = 0; round < 300; round += 1) {
    const rules = {
      lineLength: 10 + dice.below(60),
      lines: 1 + dice.below(4),
      charactersPerSecond: 5 + dice.below(40),
    }
    const segments: Segment[] = []
    const words: Word[] = []
    for (let at = dice.below(5), id = 0; id < 1 + dice.below(12); id += 1) {
      const said = Array.from({ length: 1 + dice.below(30) }, () =>
        `${'wörd😀'
          .repeat(4)
          .slice(0, 1 + dice.below(20))
          .replace(/[\ud800-\udbff]$/, '')}${dice.one(['', '', '.', ',', '?'])}`.replace(
          /^[\udc00-\udfff]/,
          'x',
        ),
      )
      const start = at
      for (const word of said) {
        const seconds = 0.05 + dice.roll()
        if (dice.chance(0.98)) words.push({ word, start: at, end: at + seconds })
        at += seconds
      }
      segments.push(segment(start, at, said.join(' ')))
      at += dice.chance(0.3) ? dice.below(4) : 0
    }
    const made = subtitleSegments({ segments, words }, rules)
    const plain = (list: readonly Segment[]) => list.map(({ text }) => text.replaceAll(/\s/g, '')).join('')
    const faults = made.flatMap(({ start, end, text }, index) => {
      const lines = text.split('\n')
      const before = made[index - 1]
      return [
        lines.length > rules.lines && `${lines.length} lines`,
        lines.some((line) => [...line].length > rules.lineLength || line.trim() !== line) && 'a long line',
        !(end > start) && 'no time',
        before !== undefined && start < before.end - 1e-6 && 'it begins before the last has ended',
      ].filter((fault) => fault !== false)
    })
    t.same(faults, [], `round ${round}`)
    t.equal(plain(made), plain(segments))
  }
})

t.test('as SubRip', async (t) => {
  const text = 'It is a long way to the sea and back again, is it not?'
  const segments = subtitleSegments(
    { segments: [segment(0, 6, text)], words: [] },
    { ...RULES, lineLength: 30 },
  )
  t.equal(
    renderTranscript('srt', { text, segments }).body,
    '1\n00:00:00,000 --> 00:00:06,000\nIt is a long way to the sea\nand back again, is it not?\n',
  )
})
