import t from 'tap'
import { readTranscript } from '../../../src/console/page/views/playground/reply.ts'
import type { FollowAlong } from '../../../src/console/page/views/playground/transcript.ts'
import { followAlong, markAt } from '../../../src/console/page/views/playground/transcript.ts'

const noHeader = () => null
const words = (text: string, seconds = 0.5, who: object = {}) =>
  text
    .split(' ')
    .map((word, index) => ({ word, start: index * seconds, end: index * seconds + seconds * 0.8, ...who }))
const textOf = ({ turns }: FollowAlong) => turns.map(({ pieces }) => pieces.map(({ text }) => text).join(''))

t.test('words keep the punctuation of the transcript', async (t) => {
  const { marks, turns } = followAlong('Hello, world. “It’s” fine!', words('Hello world It’s fine'), [])
  t.same(textOf({ marks, turns }), ['Hello, world. “It’s” fine!'])
  t.same(
    turns[0]?.pieces.filter(({ mark }) => mark !== null).map(({ text, mark }) => [text, mark]),
    [
      ['Hello', 0],
      ['world', 1],
      ['It’s', 2],
      ['fine', 3],
    ],
  )
})

t.test('words that the transcript writes otherwise are between spaces', async (t) => {
  const laid = followAlong('Twenty dollars and 5 cents', words('$20 and five cents'), [])
  t.same(textOf(laid), ['$20 and five cents'])
  t.same(textOf(followAlong('', words('a b'), [])), ['a b'])
})

t.test('languages without spaces get none', async (t) => {
  t.same(textOf(followAlong('你好世界。', words('你好 世界'), [])), ['你好世界。'])
})

t.test('each speaker has a turn', async (t) => {
  const spoken = [
    { word: 'Hi.', start: 0, end: 0.4, speaker: 'speaker_0' },
    { word: 'Hello', start: 0.5, end: 0.9, speaker: 'speaker_1' },
    { word: 'there', start: 1, end: 1.4, speaker: 'speaker_1' },
    { word: 'Bye', start: 1.5, end: 1.9, speaker: 'speaker_0' },
  ]
  const laid = followAlong('Hi. Hello there. Bye!', spoken, [])
  t.same(
    laid.turns.map(({ who, start }) => [who, start]),
    [
      ['Speaker 1', 0],
      ['Speaker 2', 0.5],
      ['Speaker 1', 1.5],
    ],
  )
  t.same(textOf(laid), ['Hi.', 'Hello there.', 'Bye!'])
})

t.test('channels are interleaved by time', async (t) => {
  const left = words('a b', 1, { channel: 0 })
  const right = words('x y', 1, { channel: 1 }).map((word) => ({ ...word, start: word.start + 0.5 }))
  const laid = followAlong('a b x y', [...left, ...right], [])
  t.same(
    laid.marks.map(({ text }) => text),
    ['a', 'x', 'b', 'y'],
  )
  t.same(
    laid.turns.map(({ who }) => who),
    ['Channel 1', 'Channel 2', 'Channel 1', 'Channel 2'],
  )
})

t.test('segments break the words, and replace them where there are none', async (t) => {
  const segments = [
    { id: 0, start: 0, end: 1, text: ' one two' },
    { id: 1, start: 1, end: 2, text: ' three four' },
  ]
  const broken = followAlong('one two three four', words('one two three four'), segments)
  t.same(textOf(broken), ['one two', 'three four'])
  const bare = followAlong('one two three four', [], segments)
  t.same(textOf(bare), ['one two', 'three four'])
  t.same(
    bare.marks.map(({ start, end }) => [start, end]),
    [
      [0, 1],
      [1, 2],
    ],
  )
})

t.test('without times there is the text, and without text nothing', async (t) => {
  t.same(followAlong('just text', [], []), {
    marks: [],
    turns: [{ who: null, start: 0, pieces: [{ text: 'just text', mark: null }] }],
  })
  t.same(followAlong('', [], []), { marks: [], turns: [] })
})

t.test('the mark of a moment', async (t) => {
  const { marks } = followAlong('a b c', words('a b c', 2), [])
  const at = (seconds: number) => markAt(marks, seconds)
  t.same([at(-1), at(0), at(1.5), at(1.9), at(2), at(5), at(100)], [null, 0, 0, 0, 1, 2, null])
  t.equal(markAt([], 1), null)
  const pause = [
    { text: 'a', start: 0, end: 1 },
    { text: 'b', start: 10, end: 11 },
  ]
  t.equal(markAt(pause, 5), null, 'nothing is lit in a long silence')
  const many = Array.from({ length: 20_000 }, (_, n) => ({ text: 'w', start: n, end: n + 1 }))
  for (const n of [0, 1, 9_999, 19_999]) t.equal(markAt(many, n + 0.5), n)
})

t.test('an answer is read as far as it can be', async (t) => {
  const heard = readTranscript(
    JSON.stringify({
      id: 'req_1',
      provider: 'sandbox',
      model: 'morse-1',
      policy_version_id: 'pv_1',
      content: 'hello',
      usage: { audio_seconds: 6, billable_audio_seconds: null, total_tokens: 0 },
      cost_usd: 0.00012,
      lk_applied_purpose: 'support',
      lk_purpose_source: 'body',
      language: 'en',
      duration_seconds: 6,
      segments: [
        { id: 0, start: 0, end: 6, text: 'hello', speaker: 'speaker_0' },
        { text: 'timeless' },
        null,
      ],
      words: [
        { word: 'hello', start: 1, end: 0.5 },
        { word: 'x', start: 'soon', end: 2 },
      ],
      warnings: ['language: ignored', 7],
    }),
    noHeader,
  )
  t.same(heard.usage, [
    ['audio_seconds', 6],
    ['total_tokens', 0],
  ])
  t.same(heard.segments, [{ id: 0, start: 0, end: 6, text: 'hello', speaker: 'speaker_0' }])
  t.same(heard.words, [{ word: 'hello', start: 1, end: 1 }])
  t.same(heard.warnings, ['language: ignored'])
  t.equal(heard.costUsd, 0.00012)
  t.match(heard.raw, /^\{\n {2}"id": "req_1"/)
})

t.test('a text has its facts in headers', async (t) => {
  const headers: Readonly<Record<string, string>> = {
    'content-type': 'application/x-subrip; charset=utf-8',
    'x-lk-request-id': 'req_2',
    'x-lk-provider': 'sandbox',
    'x-lk-model': 'morse-1',
    'x-lk-cost-usd': '0.5',
    'x-lk-usage-audio-seconds': '6',
    'x-lk-applied-purpose': 'Verk%C3%A4ufe',
    'x-lk-warnings': '["prompt: \\u00fcbersehen"]',
  }
  const heard = readTranscript('1\n00:00:00,000 --> 00:00:06,000\nhello\n', (name) => headers[name] ?? null)
  t.match(heard.content, 'hello')
  t.equal(heard.requestId, 'req_2')
  t.equal(heard.costUsd, 0.5)
  t.equal(heard.purpose, 'Verkäufe')
  t.same(heard.usage, [['audio_seconds', 6]])
  t.same(heard.warnings, ['prompt: übersehen'])
  t.equal(
    readTranscript('{"a":', () => 'application/json').content,
    '{"a":',
    'what is no JSON is shown as it is',
  )
})
