import t from 'tap'
import type { ListenView } from '../../../../src/gateway/api/deepgram/transcript.ts'
import { listenResponse as response } from '../../../../src/gateway/api/deepgram/transcript.ts'
import type { Heard } from '../../../../src/gateway/api/heard.ts'

const VIEW: ListenView = {
  ...{ utterances: false, uttSplit: 0.8, paragraphs: false, detectsLanguage: false, multichannel: false },
  ...{ tags: [], extra: {} },
}

interface Utterance {
  readonly id: string
  readonly transcript: string
  readonly speaker: number
  readonly words: readonly unknown[]
  readonly channel: number
}

interface Paragraph {
  readonly sentences: readonly { readonly text: string }[]
}

/** The answer as a client reads it. */
const listenResponse = (heard: Heard, view: ListenView) => JSON.parse(JSON.stringify(response(heard, view)))

const spoken = (word: string, start: number, more: object = {}) => ({
  word,
  start,
  end: start + 0.5,
  ...more,
})

function heard(overrides: Partial<Heard> = {}): Heard {
  return {
    requestId: 'req_1',
    provider: 'first',
    model: 'nova-3',
    created: '2026-11-20T09:00:00.000Z',
    durationSeconds: 9,
    channels: 1,
    text: 'Good morning. Is it you? Yes.',
    language: 'en',
    languageConfidence: 0.9,
    segments: [],
    words: [
      spoken('Good', 0, { speaker: 'speaker_0', confidence: 0.5 }),
      spoken('morning.', 0.6, { speaker: 'speaker_0', confidence: 1 }),
      spoken('Is', 3, { speaker: 'speaker_0' }),
      spoken('it', 3.5, { speaker: 'speaker_0' }),
      spoken('you?', 4, { speaker: 'speaker_0' }),
      spoken('Yes.', 4.6, { speaker: 'speaker_1' }),
    ],
    ...overrides,
  }
}

t.test('a transcript is one channel with one alternative', async (t) => {
  const { metadata, results } = listenResponse(heard(), VIEW)
  t.same(metadata, {
    transaction_key: 'deprecated',
    request_id: 'req_1',
    sha256: '',
    created: '2026-11-20T09:00:00.000Z',
    duration: 9,
    channels: 1,
    models: ['nova-3'],
    model_info: { 'nova-3': { name: 'nova-3', version: '', arch: 'first' } },
  })
  t.notOk('utterances' in results)
  const [alternative] = results.channels[0]?.alternatives ?? []
  t.match(alternative, { transcript: 'Good morning. Is it you? Yes.', confidence: 0.75 })
  t.same(alternative?.words[1], {
    word: 'morning',
    start: 0.6,
    end: 1.1,
    confidence: 1,
    punctuated_word: 'morning.',
    speaker: 0,
  })
  t.notOk('paragraphs' in (alternative ?? {}))
})

t.test('utterances end with silence and where the speaker changes', async (t) => {
  const said = (uttSplit: number) =>
    listenResponse(heard(), { ...VIEW, utterances: true, uttSplit }).results.utterances?.map(
      ({ transcript, speaker, words, channel }: Utterance) => [transcript, speaker, words.length, channel],
    )
  t.same(said(0.8), [
    ['Good morning.', 0, 2, 0],
    ['Is it you?', 0, 3, 0],
    ['Yes.', 1, 1, 0],
  ])
  const requestId = 'req_01arz3ndektsv4rrffq69g5fav'
  const own = listenResponse(heard({ requestId }), { ...VIEW, utterances: true })
  t.same(
    own.results.utterances?.map(({ id }: Utterance) => id),
    [0, 1, 2].map((place) => `01563e3a-b5d3-d676-4c61-00000000000${place}`),
    'ids begin as that of the request',
  )
  t.same(said(2), [
    ['Good morning. Is it you?', 0, 5, 0],
    ['Yes.', 1, 1, 0],
  ])
})

t.test('paragraphs hold sentences', async (t) => {
  const { results } = listenResponse(heard(), { ...VIEW, paragraphs: true })
  const { paragraphs } = results.channels[0]?.alternatives[0] ?? {}
  t.equal(paragraphs?.transcript, '\nSpeaker 0: Good morning.\n\nSpeaker 0: Is it you?\n\nSpeaker 1: Yes.')
  t.match(paragraphs?.paragraphs, [
    {
      num_words: 2,
      start: 0,
      end: 1.1,
      speaker: 0,
      sentences: [{ text: 'Good morning.', start: 0, end: 1.1 }],
    },
    { num_words: 3, speaker: 0 },
    { num_words: 1, speaker: 1 },
  ])
  const whole = heard({
    text: '早上好。是你吗？',
    words: [spoken('早上', 0), spoken('好。', 0.5), spoken('是你', 1), spoken('吗？', 1.5)],
  })
  const written = listenResponse(whole, { ...VIEW, paragraphs: true }).results.channels[0]?.alternatives[0]
  t.same(
    written?.paragraphs?.paragraphs.map(({ sentences }: Paragraph) => sentences.map(({ text }) => text)),
    [['早上好。', '是你吗？']],
    'as the text has it, without blanks',
  )
})

t.test('channels have texts and words of their own', async (t) => {
  const { metadata, results } = listenResponse(
    heard({
      channels: 2,
      segments: [
        { id: 0, start: 0, end: 1, text: 'Hello.', channel: 1 },
        { id: 1, start: 2, end: 3, text: 'Hi.', channel: 0 },
      ],
      words: [spoken('Hello.', 0, { channel: 1 }), spoken('Hi.', 2, { channel: 0 })],
    }),
    { ...VIEW, multichannel: true, utterances: true, detectsLanguage: true },
  )
  t.equal(metadata.channels, 2)
  t.match(results.channels, [
    { alternatives: [{ transcript: 'Hi.', words: [{ word: 'hi' }] }], detected_language: 'en' },
    { alternatives: [{ transcript: 'Hello.', words: [{ word: 'hello' }] }], language_confidence: 0.9 },
  ])
  t.match(results.utterances, [
    { channel: 1, transcript: 'Hello.', id: '00000000-0000-0000-0000-000100000000' },
    { channel: 0, transcript: 'Hi.', id: '00000000-0000-0000-0000-000000000000' },
  ])
})

t.test('silence has no words', async (t) => {
  const silent = heard({ text: '', words: [], language: null })
  const { results } = listenResponse(silent, { ...VIEW, utterances: true, paragraphs: true })
  t.same(results, {
    channels: [
      {
        alternatives: [
          { transcript: '', confidence: 0, words: [], paragraphs: { transcript: '', paragraphs: [] } },
        ],
      },
    ],
    utterances: [],
  })
})
