import fc from 'fast-check'
import { test } from 'tap'
import type { LiveAudio, TranscriptionResult } from '../../../src/contracts/calls.ts'
import { finalsOf } from '../../../src/gateway/live/batch-pieces.ts'
import { cutSeconds, fileOf, toPcm } from '../../../src/gateway/live/piece-audio.ts'
import { Transcript } from '../../../src/gateway/live/transcript.ts'
import { converter } from '../../../src/gateway/media/pcm.ts'
import { readWavHead } from '../../../src/gateway/media/wav-head.ts'

const RATE = 16_000
const AUDIO: LiveAudio = { encoding: 'pcm_s16le', sampleRate: RATE, channels: 1 }
const LENGTHS = { leastSeconds: 3, mostSeconds: 15, pauseSeconds: 0.5 }

/** Audio of spoken and silent stretches, seconds of each in turn. */
function audioOf(stretches: readonly number[], level = 4_000): Uint8Array {
  const parts = stretches.map((seconds, index) =>
    new Int16Array(Math.round(seconds * RATE)).fill(index % 2 === 0 ? level : 0),
  )
  return Buffer.concat(parts.map(({ buffer }) => new Uint8Array(buffer)))
}

test('audio is cut in the last pause that is long enough, or waits for one', async (t) => {
  const cut = (stretches: readonly number[]) => cutSeconds(audioOf(stretches), AUDIO, LENGTHS)
  t.equal(cut([4, 0.6, 1, 0.3, 1]), 4.3, 'a short pause is none')
  t.equal(cut([4, 0.6, 1, 0.6, 1]), 5.9, 'the last one')
  t.equal(cut([1, 0.6, 3]), null, 'not before there is enough of it')
  t.equal(cut([0, 8]), null, 'silence alone is the end of nothing')
  t.equal(cut([6]), null)
})

test('a full piece is cut in its longest silence, and without one where it is least loud', async (t) => {
  t.equal(cutSeconds(audioOf([6, 0.2, 3, 0.3, 5.5]), AUDIO, LENGTHS), 9.35)
  const loud = Buffer.concat([audioOf([7]), audioOf([0.1], 700), audioOf([7.9])])
  const place = cutSeconds(loud, AUDIO, LENGTHS)!
  t.ok(place >= 7 && place <= 7.1, `at ${place}`)
})

test('no place of a cut is in a word, whatever was said', async () => {
  const stretches = fc.array(fc.integer({ min: 2, max: 60 }), { minLength: 2, maxLength: 30 })
  fc.assert(
    fc.property(stretches, (hundredths) => {
      const seconds = hundredths.map((one) => one / 20)
      const pcm = audioOf(seconds).subarray(0, LENGTHS.mostSeconds * RATE * 2)
      const place = cutSeconds(pcm, AUDIO, LENGTHS)
      if (place === null) return pcm.length < LENGTHS.mostSeconds * RATE * 2
      let start = 0
      const silent = seconds.some((length, index) => {
        const isIn = index % 2 === 1 && place >= start - 0.02 && place <= start + length + 0.02
        start += length
        return isIn
      })
      // A word may be longer than a piece can wait.
      return silent || Math.max(...seconds) > 2
    }),
  )
})

test('a piece is a wav file of what was sent', async (t) => {
  for (const encoding of ['pcm_s16le', 'mulaw', 'alaw'] as const) {
    const audio: LiveAudio = { encoding, sampleRate: 8_000, channels: 2 }
    // Without the second zero that mu-law has.
    const sent = Uint8Array.from({ length: 8_000 }, (_, at) => (at * 37) & 0xff).map((one) =>
      one === 0x7f ? 0 : one,
    )
    const pcm = toPcm(sent, audio)
    const file = fileOf(pcm, audio)
    t.ok(file.source.kind === 'memory')
    const bytes = Buffer.concat(file.source.kind === 'memory' ? file.source.blocks : [])
    const head = readWavHead(bytes)
    t.match(head, { audio: { encoding: 'pcm_s16le', sampleRate: 8_000, channels: 2 }, bytes: pcm.length })
    t.equal(file.decodedBytes, bytes.length)
    t.equal(file.durationSeconds, encoding === 'pcm_s16le' ? 0.25 : 0.5)
    const back = converter({ ...audio, encoding: 'pcm_s16le' }, audio)
    const samples = bytes.subarray(bytes.length - pcm.length)
    t.ok(Buffer.from(sent).equals(back === null ? samples : back(samples)), encoding)
  }
})

const RESULT: TranscriptionResult = {
  text: 'a b c',
  language: 'en',
  languageConfidence: null,
  durationSeconds: null,
  segments: [],
  words: [],
  warnings: [],
}
const word = (text: string, start: number, end: number, channel?: number) => ({
  ...{ word: text, start, end },
  ...(channel === undefined ? {} : { channel }),
})

test('what a file says comes as finals, each word in one of them', async (t) => {
  const words = [word('a', 0, 1), word('b', 1.4, 2), word('c', 2.5, 3.4)]
  const segments = [
    { id: 0, start: 0, end: 1.2, text: 'a' },
    { id: 1, start: 1.5, end: 3.2, text: 'b c' },
  ]
  const both = finalsOf({ ...RESULT, words, segments }, 3)
  t.same(
    both.map(({ words: own }) => own.map((one) => one.word)),
    [['a'], ['b', 'c']],
  )
  t.equal(both[1]!.segment.end, 3, 'nothing ends behind the file')
  t.equal(both[1]!.words[1]!.end, 3)
  const [only, ...more] = finalsOf({ ...RESULT, words }, 3)
  t.match(only, { channel: 0, segment: { start: 0, end: 3, text: 'a b c' }, language: 'en' })
  t.same(more, [])
  t.match(finalsOf(RESULT, 3), [{ segment: { start: 0, end: 3, text: 'a b c' }, words: [] }])
  t.same(finalsOf({ ...RESULT, text: ' ' }, 3), [])
  const channels = finalsOf({ ...RESULT, words: [word('a', 0, 1, 1), word('b', 0.5, 1, 0)] }, 3)
  t.same(
    channels.map(({ channel, segment }) => [channel, segment.text]),
    [
      [1, 'a'],
      [0, 'b'],
    ],
  )
})

test('a transcript takes more words than a call may have arguments', async (t) => {
  const words = Array.from({ length: 200_000 }, (_, at) => ({
    word: 'a',
    start: at / 1e5,
    end: (at + 1) / 1e5,
  }))
  const transcript = new Transcript(AUDIO, false)
  for (const final of finalsOf({ ...RESULT, words }, 3)) transcript.take(final, 0, 3)
  t.equal(transcript.result().words.length, words.length)
})
