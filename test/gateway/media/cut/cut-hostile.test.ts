import fc from 'fast-check'
import t from 'tap'
import type { Audio } from '../../../../src/contracts/audio.ts'
import { GatewayError } from '../../../../src/contracts/errors.ts'
import type { CutPlan } from '../../../../src/contracts/parts.ts'
import { ByteStream } from '../../../../src/gateway/media/cut/byte-stream.ts'
import { cutSound } from '../../../../src/gateway/media/cut/cutting.ts'
import { openMp3 } from '../../../../src/gateway/media/cut/mp3-sound.ts'
import { planWhole } from '../../../../src/gateway/media/cut/plan.ts'
import { NO_SOUND, type Sound, Uncuttable } from '../../../../src/gateway/media/cut/sound.ts'
import { WAV_CODEC } from '../../../../src/gateway/media/wav-format.ts'
import { change, mutated } from '../../../support/mutations.ts'
import { cutFile, plainPlan } from '../cut-audio.ts'
import { fixture, formatOf, VERDICTS } from '../fixtures.ts'
import { hastyMp4, shortenedOgg, wavOf } from '../long-audio.ts'

/** As many as the environment asks for; a sample in each run. */
const RUNS = Number(process.env.LARKWAY_TEST_HOSTILE ?? 1500)
/** Generous: such a file takes milliseconds where nothing else runs. */
const LIMIT_MS = 10_000

t.setTimeout(600_000)

const files = Object.keys(VERDICTS)
  .filter((name) => formatOf(name) !== 'none' && name !== 'mp3-cover.mp3')
  .map((name) => fixture(name))

/** Cuts, and holds what must hold of any bytes. @returns whether it could be cut */
async function survives(bytes: Buffer, more: Partial<CutPlan> = {}): Promise<boolean> {
  let made = 0
  try {
    const plan = plainPlan(0.3, { count: 20, ...more })
    const { parts } = await cutFile(bytes, () => plan, AbortSignal.timeout(LIMIT_MS))
    made = parts.reduce((sum, { kept }) => sum + kept.length, 0)
    // Parts overlap, and each has a head.
    if (made > 4 * bytes.length + parts.length * 70_000)
      throw new Error(`${made} bytes out of ${bytes.length}`)
    return true
  } catch (error) {
    const isRefusal = error instanceof Uncuttable || error instanceof GatewayError
    if (!isRefusal) throw error
    return false
  }
}

t.test(`${RUNS} mutated files are cut or refused, within bounds`, async (t) => {
  const counts = { cut: 0, refused: 0 }
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...files),
      fc.array(change, { minLength: 1, maxLength: 8 }),
      fc.constantFrom(1, 1, 0.97, 0.5),
      async (original, changes, kept) => {
        const bytes = mutated(original, changes)
        // Otherwise most of them are no audio at all.
        original.copy(bytes, 0, 0, 48)
        const isCut = await survives(bytes.subarray(0, Math.floor(bytes.length * kept)))
        counts[isCut ? 'cut' : 'refused'] += 1
      },
    ),
    { numRuns: RUNS },
  )
  t.ok(counts.cut > RUNS / 10 && counts.refused > 0, JSON.stringify(counts))
})

t.test('a WAV whose format is impossible is cut or refused', async (t) => {
  const sound = new Uint8Array(8000).fill(100)
  const fields = { channels: 2, sampleRate: 4, blockBytes: 12, bitsPerSample: 14, samplesPerBlock: 18 }
  const counts = { cut: 0, refused: 0 }
  for (const codec of [...Object.values(WAV_CODEC), 0x55])
    for (const at of Object.values(fields))
      for (const value of [0, 1, 0xffff]) {
        const format = Buffer.alloc(20)
        for (const [field, usual] of [
          [0, codec],
          [2, 1],
          [4, 8000],
          [8, 16_000],
          [12, 2],
          [14, 16],
          [18, 4],
        ] as const)
          format.writeUInt16LE(usual, field)
        format.writeUInt16LE(value, at)
        const bytes = wavOf(format, sound)
        for (const skipsSilence of [false, true])
          counts[(await survives(bytes, { skipsSilence })) ? 'cut' : 'refused'] += 1
      }
  t.ok(counts.cut > 50 && counts.refused > 10, JSON.stringify(counts))
})

t.test('packets that last no time are not held without end', async (t) => {
  const packet = { bytes: new Uint8Array(0), ticks: 0 }
  let given = 0
  const sound: Sound = {
    ...{ rate: 1000, startSeconds: 0, silenceDrop: 7, skipDrop: 14, level: () => NO_SOUND },
    async *packets() {
      for (; given < 200_000; given += 1) yield packet
    },
    begin: () => ({ bytes: 0, add: () => [], end: () => ({ head: packet.bytes, tail: [] }) }),
  }
  const sink = () => ({ write: async () => {}, finish: async () => null })
  await t.rejects(cutSound(sound, plainPlan(10, { skipsSilence: true }), sink, 0), { name: 'Uncuttable' })
  t.ok(given < 100_000, `${given} packets`)
})

/** Seconds of sound that the parts of a file are charged for, cut whole and in pieces of a second. */
async function chargedSeconds(bytes: Uint8Array): Promise<readonly number[]> {
  const cuts = [
    planWhole,
    (audio: Audio) => plainPlan(1, { durationSeconds: audio.durationSeconds, overlapSeconds: 0 }),
  ]
  const charged: number[] = []
  for (const plan of cuts) {
    const { parts } = await cutFile(bytes, (audio) => plan(audio, true))
    charged.push(parts.reduce((sum, { soundSeconds }) => sum + soundSeconds, 0))
  }
  return charged
}

t.test('what a file says of itself does not make its parts shorter, or longer', async (t) => {
  const wav = (blockBytes: number) => {
    const bytes = Buffer.from(fixture('wav-s16-stereo.wav'))
    bytes.writeUInt16LE(blockBytes, 32)
    return bytes
  }
  const late = Buffer.from(fixture('ogg-vorbis.ogg'))
  for (let at = late.indexOf('OggS'); at >= 0; at = late.indexOf('OggS', at + 4)) {
    const position = late.readBigInt64LE(at + 6)
    if (position > 0n) late.writeBigInt64LE(position + 3600n * 44_100n, at + 6)
  }
  for (const [name, bytes, original] of [
    ['wav of large blocks', wav(65_534), 'wav-s16-stereo.wav'],
    ['wav of small blocks', wav(1), 'wav-s16-stereo.wav'],
    ['mp4 of short samples', hastyMp4('mp4-moov-first.m4a'), 'mp4-moov-first.m4a'],
    ['mp4 of short samples of ALAC', hastyMp4('mp4-alac.m4a'), 'mp4-alac.m4a'],
    ['ogg of short Speex', shortenedOgg('ogg-speex.ogg'), 'ogg-speex.ogg'],
    ['ogg of short FLAC', shortenedOgg('ogg-flac.ogg'), 'ogg-flac.ogg'],
    ['ogg that began in a running stream', late, 'ogg-vorbis.ogg'],
    [
      'webm with zeros at its end',
      Buffer.concat([fixture('webm-piped.webm'), Buffer.alloc(4096)]),
      'webm-piped.webm',
    ],
  ] as const) {
    const { decoded_seconds: seconds } = VERDICTS[original]!
    for (const charged of await chargedSeconds(bytes))
      t.ok(charged > 0.9 * seconds && charged < 1.3 * seconds, `${name}: ${charged} s of ${seconds} s`)
  }
})

t.test('sound behind a stream of another rate is not left out', async (t) => {
  const joined = Buffer.concat([fixture('mp3-cbr-bare.mp3'), ...Array(3).fill(fixture('mp3-mpeg2.mp3'))])
  await t.rejects(chargedSeconds(joined), /streams that follow one another/)
  const tagged = Buffer.concat([fixture('mp3-id3v1.mp3'), fixture('mp3-id3v1.mp3')])
  t.equal((await chargedSeconds(tagged)).length, 2, 'of the same rate it is one')
})

t.test('headers of other rates in a damaged place are not held without end', async (t) => {
  const sound = fixture('mp3-cbr-bare.mp3')
  const stray = Buffer.alloc(4096, Buffer.concat([Buffer.from([0xff, 0xfb, 0x98, 0]), Buffer.alloc(2044)]))
  let most = 0
  const chunks = async function* () {
    yield sound
    for (let count = 0; count < 500; count += 1) {
      yield stray
      most = Math.max(most, stream.view.length)
    }
    yield sound
  }
  const stream = new ByteStream(chunks(), AbortSignal.timeout(LIMIT_MS))
  let packets = 0
  for await (const _ of (await openMp3(stream)).packets()) packets += 1
  t.ok(most < 50_000, `${most} bytes at hand`)
  t.ok(packets > 200, `${packets} packets`)
})

t.test('a sample without an end makes no silence of the others', async (t) => {
  const format = Buffer.alloc(16)
  format.writeUInt16LE(WAV_CODEC.float, 0)
  format.writeUInt16LE(1, 2)
  format.writeUInt32LE(8_000, 4)
  format.writeUInt32LE(32_000, 8)
  format.writeUInt16LE(4, 12)
  format.writeUInt16LE(32, 14)
  const sound = Buffer.alloc(4 * 8_000 * 20)
  for (let at = 0; at < sound.length / 4; at += 1)
    sound.writeFloatLE(0.3 * Math.sin(at / 5) * (at < 80_000 ? 1 : 0), at * 4)
  const [before = 0] = await chargedSeconds(wavOf(format, sound))
  for (const sample of [Number.POSITIVE_INFINITY, Number.NaN, 1e30]) {
    sound.writeFloatLE(sample, 400_000)
    const [after = 0] = await chargedSeconds(wavOf(format, sound))
    t.ok(Math.abs(after - before) < 1, `${after} s are heard, of ${before} s`)
  }
})
