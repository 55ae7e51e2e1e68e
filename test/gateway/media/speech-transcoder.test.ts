import { spawnSync } from 'node:child_process'
import t, { type Test, test } from 'tap'
import type { LiveAudio } from '../../../src/contracts/calls.ts'
import { UnreadableSpeech } from '../../../src/contracts/speech-encoding.ts'
import { converter, SAMPLE_RATES, samplesOf } from '../../../src/gateway/media/pcm.ts'
import { speechForm, speechMediaType } from '../../../src/gateway/media/speech-form.ts'
import { SpeechTranscoder } from '../../../src/gateway/media/speech-transcoder.ts'
import { speak } from '../../../src/sandbox/speak.ts'
import { writeWav } from '../../../src/sandbox/wav.ts'
import { decodeSpeech, heardIn, probed } from '../../support/decoded-speech.ts'

const TEXT = 'HELLO WORLD'
const WAV = speak(TEXT, 600, 2)
const SECONDS = (WAV.length - 44) / 16_000
/** What an encoder of frames may add, and its delay. */
const FRAMES_SECONDS = 0.25

const FORMATS = [
  ...['mp3', 'mp3_22050_32', 'mp3_44100_128', 'mp3_24000_48', 'opus', 'opus_48000_96'],
  ...[
    ...['pcm', 'pcm_16000', 'pcm_22050', 'pcm_24000', 'pcm_44100', 'wav', 'wav_22050', 'ulaw_8000'],
    'alaw_8000',
  ],
]

async function encoded(source: LiveAudio | null, bytes: Uint8Array, format: string, pieceBytes = 4000) {
  const transcoder = new SpeechTranscoder(source, speechForm(format)!)
  const pieces: Uint8Array[] = []
  for (let at = 0; at < bytes.length; at += pieceBytes)
    pieces.push(await transcoder.push(bytes.subarray(at, at + pieceBytes)))
  pieces.push(await transcoder.end())
  transcoder.free()
  return { pieces, whole: Buffer.concat(pieces) }
}

test('each format: its type, its rate, its length, and the words that went in', async (t) => {
  for (const format of FORMATS) {
    const { pieces, whole } = await encoded(null, WAV, format)
    const decoded = await decodeSpeech(whole, format)
    const { codec, sampleRate } = speechForm(format)!
    t.equal(heardIn(decoded), TEXT.toLowerCase(), format)
    t.equal(decoded.sampleRate, codec === 'opus' ? 48_000 : (sampleRate ?? 8_000), format)
    const seconds = decoded.samples.length / decoded.sampleRate
    if (codec !== 'mp3')
      t.equal(decoded.samples.length, Math.round(SECONDS * decoded.sampleRate), `${format}: to the sample`)
    t.ok(seconds >= SECONDS - 0.001 && seconds <= SECONDS + FRAMES_SECONDS, `${format}: ${seconds} s`)
    t.ok(pieces.findIndex(({ length }) => length > 0) <= 1, `${format}: comes while more is to come`)
    if (codec !== 'mp3' && codec !== 'opus' && codec !== 'wav') continue
    const { format: container, channels, durationSeconds } = await probed(whole)
    t.equal(container, codec === 'opus' ? 'ogg' : codec, format)
    t.equal(channels, 1, format)
    t.ok(Math.abs((durationSeconds ?? 0) - SECONDS) <= FRAMES_SECONDS, `${format}: ${durationSeconds} s`)
  }
})

test('the bit rate that is asked for', async (t) => {
  for (const [format, bitrate] of [
    ['mp3_22050_32', 32_000],
    ['mp3_44100_128', 128_000],
    ['mp3_24000_48', 48_000],
    ['mp3_44100_192', 192_000],
  ] as const) {
    const { whole } = await encoded(null, WAV, format)
    const { durationSeconds } = await probed(whole)
    const ratio = (whole.length * 8) / (durationSeconds ?? 0) / bitrate
    t.ok(Math.abs(ratio - 1) < 0.02, `${format}: ${ratio}`)
  }
})

test('other programs read them', async (t) => {
  for (const program of ['ffmpeg', 'sox'])
    await t.test(program, { skip: isInstalled(program) ? false : `no ${program} here` }, readBy(program))
})

function isInstalled(program: string): boolean {
  return spawnSync(program, [program === 'sox' ? '--version' : '-version']).status === 0
}

function readBy(program: string): (t: Test) => Promise<void> {
  return async (t) => {
    // A sox that has no Opus is common.
    const formats = ['mp3', 'mp3_44100_128', 'wav', ...(program === 'sox' ? [] : ['opus'])]
    for (const format of formats) {
      const { whole } = await encoded(null, WAV, format)
      const args =
        program === 'sox'
          ? ['-t', format.split('_')[0]!, '-', ...'-r 8000 -c 1 -b 16 -e signed -t raw -'.split(' ')]
          : '-v error -i - -ar 8000 -ac 1 -f s16le -'.split(' ')
      const { stdout, stderr } = spawnSync(program, args, { input: whole, maxBuffer: 64 * 1024 * 1024 })
      const heard = heardIn({ samples: samplesOf(stdout), sampleRate: 8_000 })
      t.equal(heard, TEXT.toLowerCase(), `${format} ${stderr}`)
    }
  }
}

test('however the file is cut, the same comes out', async (t) => {
  const part = WAV.subarray(0, 20_000)
  for (const format of ['mp3_22050_32', 'opus', 'pcm_16000', 'wav', 'ulaw_8000']) {
    const sizes = [1, 44, 45, 333, part.length]
    const all = await Promise.all(sizes.map((size) => encoded(null, part, format, size)))
    // The serial number of an Ogg stream is another one each time, and so is how its packets are paged.
    const samples = await Promise.all(
      all.map(async ({ whole }) => (await decodeSpeech(whole, format)).samples),
    )
    for (const [index, other] of samples.entries())
      t.ok(Buffer.from(other.buffer).equals(Buffer.from(samples[0]!.buffer)), `${format} in ${sizes[index]}`)
  }
})

test('samples without a head, of several channels, compressed', async (t) => {
  const pcm = WAV.subarray(44)
  const audio: LiveAudio = { encoding: 'pcm_s16le', sampleRate: 8_000, channels: 1 }
  for (const encoding of ['pcm_s16le', 'mulaw', 'alaw'] as const) {
    const source = { ...audio, encoding }
    const bytes = converter(audio, source)?.(pcm).slice() ?? pcm
    const { whole } = await encoded(source, bytes, 'mp3_24000_48')
    t.equal(heardIn(await decodeSpeech(whole, 'mp3_24000_48')), TEXT.toLowerCase(), encoding)
  }
  const stereo = Int16Array.from([...samplesOf(pcm)].flatMap((sample) => [sample, sample]))
  const { whole } = await encoded({ ...audio, channels: 2 }, Buffer.from(stereo.buffer), 'pcm_16000', 777)
  t.equal(heardIn(await decodeSpeech(whole, 'pcm_16000')), TEXT.toLowerCase())
  t.equal(whole.length, Math.round(SECONDS * 16_000) * 2)
})

test('what stands behind the samples of a wav file is not sound', async (t) => {
  const tail = Buffer.alloc(5_000, 0x7f)
  const { whole } = await encoded(null, Buffer.concat([WAV, tail]), 'pcm_16000')
  t.equal(whole.length, Math.round(SECONDS * 16_000) * 2)
})

test('what is no speech is refused', async (t) => {
  const odd = writeWav(new Int16Array(100), 8_000)
  odd.writeUInt32LE(44_101, 24)
  const float = writeWav(new Int16Array(100), 8_000)
  float.writeUInt16LE(3, 20)
  const files = {
    'no wav': Buffer.alloc(100),
    float,
    'odd rate': odd,
    empty: writeWav(new Int16Array(0), 8_000),
  }
  for (const [name, bytes] of Object.entries({
    ...files,
    nothing: Buffer.alloc(0),
    cut: WAV.subarray(0, 30),
  }))
    await t.rejects(encoded(null, bytes, 'mp3'), UnreadableSpeech, name)
})

test('names of formats', async (t) => {
  for (const name of [...FORMATS, 'mp3_44100_192', 'mp3_8000_32', 'opus_48000_32', 'pcm_8000', 'wav_48000'])
    t.ok(speechForm(name), name)
  const unmade = [
    ...[
      ...['flac', 'aac', 'ogg', 'MP3', 'mp3_44100', 'mp3_44100_999', 'mp3_8000_128', 'mp3_44100_24', 'mp3 '],
      '',
    ],
    ...[
      ...['opus_44100_96', 'opus_48000_5', 'opus_48000', 'pcm_1', 'pcm_24001', 'pcm_16000_32', 'wav_9000'],
      'ulaw',
    ],
    ...['ulaw_16000', 'alaw_44100', 'constructor', '__proto__'],
  ]
  for (const name of unmade) t.equal(speechForm(name), null, name)
  t.equal(speechMediaType('pcm_16000'), 'audio/pcm;rate=16000')
  t.equal(speechMediaType('pcm'), 'audio/pcm;rate=24000')
})

/** Amplitude of one tone in samples, of full scale. */
function toneIn(samples: Int16Array, hertz: number, sampleRate: number): number {
  let [re, im, weights] = [0, 0, 0]
  for (let at = 0; at < samples.length; at += 1) {
    const weight = 0.5 - 0.5 * Math.cos((2 * Math.PI * at) / samples.length)
    const turn = (2 * Math.PI * hertz * at) / sampleRate
    re += weight * samples[at]! * Math.cos(turn)
    im += weight * samples[at]! * Math.sin(turn)
    weights += weight
  }
  return (2 * Math.hypot(re, im)) / weights / 32_768
}

const decibels = (ratio: number) => 20 * Math.log10(Math.max(ratio, 1e-6))

test('another sample rate: what it has no room for is gone, and the rest stays as loud', async (t) => {
  let worst = Number.NEGATIVE_INFINITY
  for (const from of SAMPLE_RATES)
    for (const to of SAMPLE_RATES.filter((rate) => rate !== from)) {
      const audio = { encoding: 'pcm_s16le', channels: 1 } as const
      const level = 0.5
      const resampled = (hertz: number) => {
        const tone = Int16Array.from({ length: from }, (_, at) =>
          Math.round(level * 32_767 * Math.sin((2 * Math.PI * hertz * at) / from)),
        )
        const bytes = new Uint8Array(tone.buffer)
        const made = converter({ ...audio, sampleRate: from }, { ...audio, sampleRate: to })!(bytes)
        return samplesOf(made.slice())
      }
      const half = Math.min(from, to) / 2
      const passed = decibels(toneIn(resampled(0.7 * half), 0.7 * half, to) / level)
      t.ok(Math.abs(passed) < 0.5, `${from} to ${to}: a tone that passes has ${passed} dB`)
      // A tone above what the lower rate can hold comes back below it; a higher rate must not have images of it.
      const alias =
        to < from
          ? decibels(toneIn(resampled(1.25 * half), to - 1.25 * half, to) / level)
          : decibels(toneIn(resampled(0.7 * half), Math.min(from - 0.7 * half, to / 2), to) / level)
      worst = Math.max(worst, alias)
      t.ok(alias < -55, `${from} to ${to}: alias at ${alias.toFixed(1)} dB`)
    }
  t.comment(`worst alias or image: ${worst.toFixed(1)} dB`)
})

t.comment(`speech of ${SECONDS} s`)
