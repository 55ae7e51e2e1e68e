import t from 'tap'
import { scribeResponse } from '../../../../src/gateway/api/elevenlabs/transcript.ts'
import type { Heard } from '../../../../src/gateway/api/heard.ts'

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
    model: 'scribe_v2',
    created: '2026-11-20T09:00:00.000Z',
    durationSeconds: 9,
    channels: 1,
    text: 'Good — morning.',
    language: 'en',
    languageConfidence: 0.9,
    segments: [],
    words: [
      spoken('Good', 0, { speaker: 'speaker_0', confidence: 0.5 }),
      spoken('morning.', 2, { speaker: 'speaker_1' }),
    ],
    ...overrides,
  }
}

t.test('words, and what is between them', async (t) => {
  t.same(scribeResponse(heard(), { timed: true, channels: 'one' }), {
    language_code: 'en',
    language_probability: 0.9,
    text: 'Good — morning.',
    words: [
      { text: 'Good', start: 0, end: 0.5, type: 'word', logprob: Math.log(0.5), speaker_id: 'speaker_0' },
      { text: ' — ', start: 0.5, end: 2, type: 'spacing', logprob: Math.log(0.5), speaker_id: 'speaker_0' },
      { text: 'morning.', start: 2, end: 2.5, type: 'word', logprob: 0, speaker_id: 'speaker_1' },
    ],
    transcription_id: 'req_1',
    audio_duration_secs: 9,
  })
  const untimed = scribeResponse(heard({ language: null, languageConfidence: null }), {
    timed: false,
    channels: 'one',
  })
  t.match(untimed, { language_code: '', language_probability: 1, words: [] })
})

t.test('the items of a text are the text', async (t) => {
  const whole = heard({
    text: '早上好。是你吗？ Ok.',
    words: [spoken('早上', 0), spoken('好。', 0.5), spoken('是你吗？', 1), spoken('Ok.', 2)],
  })
  const { words } = scribeResponse(whole, { timed: true, channels: 'one' }) as { words: { text: string }[] }
  t.equal(words.map(({ text }) => text).join(''), whole.text)
})

t.test('channels have transcripts of their own, or words that name them', async (t) => {
  const both = heard({
    channels: 2,
    text: 'Hello. Hi.',
    segments: [
      { id: 0, start: 0, end: 1, text: 'Hello.', channel: 1 },
      { id: 1, start: 2, end: 3, text: 'Hi.', channel: 0 },
    ],
    words: [spoken('Hello.', 0, { channel: 1 }), spoken('Hi.', 2, { channel: 0 })],
  })
  t.match(scribeResponse(both, { timed: true, channels: 'separate' }), {
    transcripts: [
      { text: 'Hi.', channel_index: 0, words: [{ text: 'Hi.' }] },
      { text: 'Hello.', channel_index: 1, words: [{ text: 'Hello.' }] },
    ],
    transcription_id: 'req_1',
  })
  t.match(scribeResponse(both, { timed: true, channels: 'combined' }), {
    text: 'Hello. Hi.',
    words: [{ text: 'Hello.', channel_index: 1 }, { type: 'spacing' }, { text: 'Hi.', channel_index: 0 }],
  })
})
