import t from 'tap'
import { createMediaProbe } from '../../../src/gateway/media/probe.ts'
import type { Standing } from '../../support/memory-audio.ts'
import { memoryAudio, STANDINGS } from '../../support/memory-audio.ts'
import { fixture, formatOf, VERDICTS } from './fixtures.ts'
import { hastyMp4, shortenedOgg } from './long-audio.ts'

const TOLERANCE_SECONDS = 0.1

async function probe(bytes: Uint8Array, standing: Standing = 'identity') {
  const { audio, reader, reads } = memoryAudio(bytes, standing)
  const found = await createMediaProbe({ reader }).probe(audio, new AbortController().signal)
  return { audio, found, reads }
}

for (const standing of STANDINGS) {
  t.test(`every fixture as ${standing}: format, channels and duration as ffprobe has them`, async (t) => {
    for (const [name, verdict] of Object.entries(VERDICTS)) {
      if (formatOf(name) === 'none') {
        t.match(
          (await probe(fixture(name), standing)).found,
          { format: 'other', durationSeconds: null },
          name,
        )
        continue
      }
      const { audio, found, reads } = await probe(fixture(name), standing)
      t.match(found, { ...audio, format: formatOf(name), channels: verdict.channels }, name)
      // Where ffprobe guesses from a bit rate, counts the picture, or sees only one stream of a chain, what
      // ffmpeg decodes is what counts.
      const { duration_seconds: declared, decoded_seconds: decoded } = verdict
      const isGuess = declared === null || Math.abs(declared - decoded) > TOLERANCE_SECONDS
      const expected = isGuess ? decoded : declared
      const difference = Math.abs((found.durationSeconds ?? Number.NaN) - expected)
      t.ok(difference <= TOLERANCE_SECONDS, `${name}: ${found.durationSeconds} s, not ${expected} s`)
      t.ok(reads.ranges.length <= 2 && reads.passes <= 1 && reads.open === 0, `${name} is read once`)
    }
  })
}

t.test('of the fixtures, ffprobe is only set aside where it is known to guess', async (t) => {
  const aside = Object.entries(VERDICTS)
    .filter(([name]) => formatOf(name) !== 'none')
    .filter(([, { duration_seconds: declared, decoded_seconds: decoded }]) => {
      return declared === null || Math.abs(declared - decoded) > TOLERANCE_SECONDS
    })
    .map(([name]) => name)
  t.same(aside.sort(), [
    ...['flac-piped.flac', 'mp3-cut.mp3', 'mp3-vbr-bare.mp3', 'mp4-video.mp4', 'ogg-chained.ogg'],
    ...['ogg-joined-late.ogg', 'webm-live.webm', 'webm-piped-video.webm', 'webm-piped-vorbis.webm'],
    'webm-piped.webm',
  ])
})

t.test('what the caller declared plays no part', async (t) => {
  const { audio, reader } = memoryAudio(fixture('ogg-vorbis.ogg'), 'identity')
  const declared = { ...audio, mediaType: 'audio/mpeg', filename: '../../etc/passwd.mp3' }
  const found = await createMediaProbe({ reader }).probe(declared, new AbortController().signal)
  t.match(found, { format: 'ogg', channels: 2, mediaType: 'audio/mpeg', filename: '../../etc/passwd.mp3' })
})

t.test('what a file says of itself does not make it much shorter', async (t) => {
  const rows = [
    ['ogg-speex.ogg', shortenedOgg, 0.9],
    ['ogg-flac.ogg', shortenedOgg, 0.9],
    ['mp4-alac.m4a', hastyMp4, 0.9],
    // Blocks of them may be short.
    ['ogg-vorbis.ogg', shortenedOgg, 0.06],
    ['mp4-opus.mp4', hastyMp4, 0.1],
  ] as const
  for (const [name, shorten, least] of rows) {
    const { durationSeconds } = (await probe(shorten(name))).found
    t.ok(durationSeconds! > least * VERDICTS[name]!.decoded_seconds, `${name}: ${durationSeconds} s`)
  }
})

t.test('containers without sound have no duration', async (t) => {
  const silent = fixture('mp4-video.mp4')
  silent.write('text', silent.lastIndexOf('soun'), 'latin1')
  t.match((await probe(silent)).found, { format: 'mp4', durationSeconds: null, channels: null })

  const opusHead = fixture('ogg-opus-mono.ogg').subarray(0, 47)
  t.match((await probe(opusHead)).found, { format: 'ogg', durationSeconds: null, channels: 1 })

  const wav = fixture('wav-mulaw.wav')
  const noData = wav.subarray(0, wav.indexOf('data'))
  t.match((await probe(noData)).found, { format: 'wav', durationSeconds: null, channels: 1 })
})

t.test('no bytes at all are no audio', async (t) => {
  t.match((await probe(new Uint8Array(0))).found, { format: 'other', durationSeconds: null, channels: null })
})

t.test('the errors of the reader and the reason of an abort come through', async (t) => {
  const { audio, reader } = memoryAudio(fixture('wav-mulaw.wav'), 'identity')
  const broken = { ...reader, range: () => Promise.reject(new RangeError('the store is away')) }
  const { signal } = new AbortController()
  await t.rejects(createMediaProbe({ reader: broken }).probe(audio, signal), { message: 'the store is away' })

  const reason = new Error('the client left')
  await t.rejects(createMediaProbe({ reader }).probe(audio, AbortSignal.abort(reason)), reason)
})
