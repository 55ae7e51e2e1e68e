import fc from 'fast-check'
import t from 'tap'
import type { Audio } from '../../../src/contracts/audio.ts'
import { createMediaProbe } from '../../../src/gateway/media/probe.ts'
import type { Standing } from '../../support/memory-audio.ts'
import { memoryAudio, STANDINGS } from '../../support/memory-audio.ts'
import { change, mutated } from '../../support/mutations.ts'
import { fixture, VERDICTS } from './fixtures.ts'
import { cbrMp3, fragmentedMp4, opusOgg, recordedWebm, vbrMp3 } from './long-audio.ts'
import { LAYER_II, programStream } from './program-stream.ts'

/** Generous: such a file takes well under a second where nothing else runs. */
const LIMIT_MS = 20_000

t.setTimeout(240_000)

/** Probes, and holds what must hold of any bytes. Null when they are of no known format. */
async function survive(bytes: Uint8Array, standing: Standing): Promise<Audio | null> {
  const { audio, reader, reads } = memoryAudio(bytes, standing)
  const found = await createMediaProbe({ reader }).probe(audio, AbortSignal.timeout(LIMIT_MS))
  const { durationSeconds: seconds, channels } = found
  if (seconds !== null && !(seconds >= 0 && seconds <= bytes.length)) throw new Error(`${seconds} s`)
  if (channels !== null && !(channels >= 1 && channels <= 255)) throw new Error(`${channels} channels`)
  const bounded = reads.ranges.length <= 4 && reads.passes <= 2 && reads.open === 0
  if (!bounded) throw new Error(`read too much: ${JSON.stringify(reads)}`)
  return found.format === 'other' ? null : found
}

const SMALL = [
  ...Object.keys(VERDICTS)
    .filter((name) => name !== 'mp3-cover.mp3')
    .map((name) => fixture(name)),
  programStream(LAYER_II, { version: 1, packetBytes: 287, video: 1 }),
  programStream(LAYER_II, { version: 2, packetBytes: 2_000 }),
]
/** Longer than a range, so that their ends are looked at too. */
const LONG = [cbrMp3(60), vbrMp3(30), fragmentedMp4(12), recordedWebm(12), opusOgg(40)]

for (const [files, numRuns] of [
  [SMALL, 2000],
  [LONG, 150],
] as const) {
  t.test(`${numRuns} mutated files are probed or refused, within bounds`, async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...files),
        fc.array(change, { minLength: 1, maxLength: 8 }),
        fc.constantFrom(1, 1, 0.97, 0.5),
        fc.constantFrom(...STANDINGS),
        async (original, changes, kept, standing) => {
          const bytes = mutated(original, changes)
          await survive(bytes.subarray(0, Math.floor(bytes.length * kept)), standing)
        },
      ),
      { numRuns },
    )
  })
}

t.test('any bytes behind a known magic are probed or refused', async () => {
  const magics = [
    'RIFF\0\0\0\0WAVEfmt ',
    'RF64\0\0\0\0WAVEds64',
    'OggS\0\x02',
    'fLaC\0\0\0\x22',
    '\xff\xfb\x90\x64',
  ]
  const heads = [
    ...magics,
    'ID3\x04\0\0\0\0\0\x10',
    '\0\0\0\x10ftypM4A \0\0\0\0',
    '\x1a\x45\xdf\xa3\x88\x42\x82\x84webm',
    '\0\0\x01\xba\x21\0\x01\0\x01\x80\0\x01\0\0\x01\xc0',
    '\0\0\x01\xba\x44\0\x04\0\x04\x01\x01\0\x03\xf8\0\0\x01\xc0',
  ]
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...heads),
      fc.uint8Array({ maxLength: 2000 }),
      fc.constantFrom(...STANDINGS),
      async (head, rest, standing) => {
        await survive(Buffer.concat([Buffer.from(head, 'latin1'), rest]), standing)
      },
    ),
    { numRuns: 800 },
  )
})

/** The length of the largest audio that is taken by default. */
const LARGEST_BYTES = 25 * 1024 * 1024

/** `head`, then `unit` again and again. */
function filled(head: Buffer, unit: Buffer): Buffer {
  return Buffer.concat([head, Buffer.alloc(LARGEST_BYTES - head.length, unit)])
}

const webmHead = fixture('webm-live.webm').subarray(0, 400)
const oggHead = fixture('ogg-opus-mono.ogg').subarray(0, 121)
const emptyPage = Buffer.concat([fixture('ogg-opus-mono.ogg').subarray(121, 121 + 26), Buffer.of(0)])
const fragments = fixture('mp4-fragments.mp4')
const fragmentHead = fragments.subarray(0, fragments.indexOf('moof') - 4)
const vbr = fixture('mp3-vbr-bare.mp3')
const mpegHead = programStream(LAYER_II, { version: 1, packetBytes: 2_000 }).subarray(0, 12)

/** Files that make every step as small as it can be. */
const SLOW: Readonly<Record<string, () => Buffer>> = {
  'mp3 of variable bit rate': () => filled(Buffer.alloc(0), vbr),
  'mp3 and then sync bytes': () => filled(vbr, Buffer.of(0xff)),
  'mp3 and then half frames': () => filled(vbr, Buffer.of(0xff, 0xfb)),
  'webm of empty blocks': () => filled(webmHead, Buffer.of(0xa3, 0x80)),
  'webm of empty tracks': () => filled(webmHead, Buffer.of(0xae, 0x80)),
  'webm of empty clusters': () => filled(webmHead, Buffer.of(0x1f, 0x43, 0xb6, 0x75, 0x83, 0xe7, 0x81, 1)),
  'ogg of empty pages': () => filled(oggHead, emptyPage),
  'ogg of page marks': () => filled(oggHead, Buffer.from('OggS')),
  'mp4 of empty boxes': () => filled(fragmentHead, Buffer.from('\0\0\0\x08free', 'latin1')),
  'mp4 of empty fragments': () => filled(fragmentHead, Buffer.from('\0\0\0\x10moof\0\0\0\x08mfhd', 'latin1')),
  'mp4 of nested fragments': () =>
    filled(fragmentHead, Buffer.from('\x7f\0\0\0moof\0\0\0\x08mfhd', 'latin1')),
  'mpeg of empty packets': () => filled(mpegHead, Buffer.of(0, 0, 1, 0xc0, 0, 0)),
  'mpeg of packs': () => filled(mpegHead, mpegHead),
  'mpeg of ones': () => filled(mpegHead, Buffer.of(1)),
  'mpeg of start codes of nothing': () => filled(mpegHead, Buffer.of(0, 0, 1, 0)),
  'mpeg of sync bytes': () =>
    filled(mpegHead, Buffer.concat([Buffer.of(0, 0, 1, 0xc0, 0xff, 0xff, 0x0f), Buffer.alloc(0xfffe, 0xff)])),
  'mpeg of frames that nothing follows': () =>
    filled(
      mpegHead,
      Buffer.concat([Buffer.of(0, 0, 1, 0xc0, 0, 8, 0x0f), Buffer.of(0xff, 0xfd, 0x10, 0, 0, 0, 0)]),
    ),
  'wav of empty chunks': () =>
    filled(Buffer.from('RIFF\0\0\0\0WAVE', 'latin1'), Buffer.from('junk\0\0\0\0', 'latin1')),
  'flac of frame marks': () => filled(fixture('flac-piped.flac').subarray(0, 8192), Buffer.of(0xff, 0xf8)),
}

for (const [name, make] of Object.entries(SLOW)) {
  t.test(`25 MiB ${name} end, and leave the event loop to others`, async (t) => {
    const bytes = make()
    const { audio, reader } = memoryAudio(bytes.subarray(0, 1), 'identity')
    // Views of the bytes themselves, so that nothing but the probe is measured.
    const views = {
      ...reader,
      range: async (_: unknown, start: number, end: number) => bytes.subarray(start, end),
      async *bytes() {
        for (let at = 0; at < bytes.length; at += 1 << 20) yield bytes.subarray(at, at + (1 << 20))
      },
    }
    const slices: number[] = []
    let startedMs = performance.now()
    let isDone = false
    const turn = () => {
      slices.push(performance.now() - startedMs)
      startedMs = performance.now()
      if (!isDone) setImmediate(turn)
    }
    setImmediate(turn)
    const signal = AbortSignal.timeout(LIMIT_MS)
    const found = await createMediaProbe({ reader: views }).probe(
      { ...audio, decodedBytes: bytes.length },
      signal,
    )
    isDone = true
    t.ok(found.durationSeconds === null || found.durationSeconds > 0)
    // Slices are meant to take a millisecond or two, and the whole takes some hundred. Where tests share cores,
    // many a slice waits for its turn.
    const median = slices.sort((one, other) => one - other)[Math.floor(slices.length / 2)] ?? 0
    t.ok(median < 100, `half of the slices took under ${median.toFixed(1)} ms`)
  })
}
