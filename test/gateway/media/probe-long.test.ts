import t from 'tap'
import { createMediaProbe } from '../../../src/gateway/media/probe.ts'
import type { Standing } from '../../support/memory-audio.ts'
import { memoryAudio, STANDINGS } from '../../support/memory-audio.ts'
import { fixture, VERDICTS } from './fixtures.ts'
import * as long from './long-audio.ts'

const RANGE_BYTES = 256 * 1024

interface Case {
  readonly name: string
  readonly bytes: Buffer
  readonly seconds: number
  readonly channels: number
  /** Whether ranges do not settle it. */
  readonly needsPass?: boolean
}

const { CBR_SECONDS, VBR_SECONDS, FRAGMENTS_TICKS, CLUSTERS_MS, OPUS_PRE_SKIP_SECONDS } = long
const decoded = (name: string): number => VERDICTS[name]!.decoded_seconds

const CASES: readonly Case[] = [
  { name: 'mp3 of one bit rate', bytes: long.cbrMp3(200), seconds: 200 * CBR_SECONDS, channels: 1 },
  {
    name: 'mp3 of one bit rate behind a cover and before tags',
    bytes: Buffer.concat([fixture('mp3-cover.mp3'), long.cbrMp3(99), long.tagsAtEnd(100_000)]),
    seconds: 100 * CBR_SECONDS,
    channels: 1,
  },
  { name: 'mp3 that Xing counts', bytes: long.xingMp3(60), seconds: 60 * VBR_SECONDS, channels: 1 },
  {
    name: 'mp3 of variable bit rate',
    bytes: long.vbrMp3(60),
    seconds: 60 * VBR_SECONDS,
    channels: 1,
    needsPass: true,
  },
  {
    name: 'mp3 with a Xing header that claims a tenth',
    bytes: long.xingMp3(60, 193 * 6),
    seconds: 60 * VBR_SECONDS,
    channels: 1,
    needsPass: true,
  },
  {
    name: 'mp3 with a Xing header that claims ten times as much',
    bytes: long.xingMp3(60, 193 * 600),
    seconds: 60 * VBR_SECONDS,
    channels: 1,
    needsPass: true,
  },
  {
    name: 'mp3 whose tag at the end claims its frames',
    bytes: Buffer.concat([long.cbrMp3(200), long.tagOf(long.cbrMp3(200).length - 300_000)]),
    seconds: 200 * CBR_SECONDS,
    channels: 1,
    needsPass: true,
  },
  {
    name: 'mp4 with moov at the end',
    bytes: long.withMediaData('mp4-moov-end.m4a', 3e6),
    seconds: 4,
    channels: 2,
  },
  {
    name: 'mp4 with moov first',
    bytes: long.withMediaData('mp4-moov-first.m4a', 3e6),
    seconds: 3.5,
    channels: 1,
  },
  {
    name: 'mp4 in fragments',
    bytes: long.fragmentedMp4(40),
    seconds: (40 * FRAGMENTS_TICKS) / 44_100,
    channels: 1,
  },
  {
    name: 'mp4 in fragments longer than a range',
    bytes: long.fragmentedMp4(2, 300_000),
    seconds: (2 * FRAGMENTS_TICKS) / 44_100,
    channels: 1,
    needsPass: true,
  },
  {
    name: 'webm without duration',
    bytes: long.recordedWebm(60),
    seconds: (60 * CLUSTERS_MS) / 1000,
    channels: 2,
  },
  {
    name: 'webm without duration whose last cluster is longer than a range',
    bytes: long.recordedWebm(60, long.voidElement(300_000)),
    seconds: (60 * CLUSTERS_MS) / 1000,
    channels: 2,
    needsPass: true,
  },
  { name: 'ogg', bytes: long.opusOgg(80), seconds: 80 * (4 + OPUS_PRE_SKIP_SECONDS), channels: 1 },
  {
    name: 'ogg whose positions claim a hundredth',
    bytes: long.opusOgg(400, 100n),
    // All packets of 20 ms, those included whose end the positions cut off.
    seconds: 400 * 201 * 0.02 - OPUS_PRE_SKIP_SECONDS,
    channels: 1,
    needsPass: true,
  },
  {
    name: 'ogg of two streams',
    bytes: Buffer.concat([long.opusOgg(160), fixture('ogg-opus-stereo.ogg')]),
    seconds: 160 * (4 + OPUS_PRE_SKIP_SECONDS) + 3,
    channels: 1,
    needsPass: true,
  },
  {
    name: 'flac of unknown length behind a picture',
    bytes: long.picturedFlac('flac-piped.flac', 600_000),
    seconds: decoded('flac-piped.flac'),
    channels: 1,
  },
  {
    name: 'wav behind a long chunk',
    bytes: long.chunkedWav('wav-s24-mono.wav', 600_000),
    seconds: decoded('wav-s24-mono.wav'),
    channels: 1,
  },
]

async function probe(bytes: Uint8Array, standing: Standing) {
  // A chunk size that no frame or page divides, so that reads cross from one chunk to the next.
  const { audio, reader, reads } = memoryAudio(bytes, standing, 64 * 1024 + 1)
  const found = await createMediaProbe({ reader }).probe(audio, new AbortController().signal)
  return { found, reads }
}

for (const { name, bytes, seconds, channels, needsPass = false } of CASES) {
  for (const standing of STANDINGS) {
    t.test(`${name}, as ${standing}`, async (t) => {
      t.ok(bytes.length > 2 * RANGE_BYTES, 'is longer than what is read of it')
      const { found, reads } = await probe(bytes, standing)
      t.equal(found.channels, channels)
      const difference = Math.abs((found.durationSeconds ?? Number.NaN) - seconds)
      t.ok(difference <= 0.1, `${found.durationSeconds} s, not ${seconds} s`)

      t.ok(reads.ranges.length <= (standing === 'loose base64' ? 1 : 4), `${reads.ranges.length} ranges`)
      t.ok(Math.max(...reads.ranges) <= RANGE_BYTES, 'none is longer than 256 KiB')
      t.ok(reads.passes <= 1, 'at most one pass')
      if (standing !== 'loose base64')
        t.equal(reads.passes, needsPass ? 1 : 0, 'a pass only where one is needed')
      t.equal(reads.open, 0, 'a pass is ended')
    })
  }
}

t.test('a Duration element cannot make a recording shorter', async (t) => {
  const file = fixture('webm-opus.webm')
  const at = file.indexOf(Buffer.of(0x44, 0x89, 0x88))
  file.writeDoubleBE(20, at + 3)
  const { found } = await probe(file, 'identity')
  t.ok(Math.abs((found.durationSeconds ?? 0) - 4) < 0.1, `${found.durationSeconds} s`)
})

t.test('nor can the headers of an mp4, whose sample table counts', async (t) => {
  const file = fixture('mp4-video.mp4')
  for (const [box, at] of [
    ['mvhd', 16],
    ['mdhd', 16],
  ] as const) {
    for (let found = file.indexOf(box); found >= 0; found = file.indexOf(box, found + 4)) {
      file.writeUInt32BE(1, found + 4 + at)
    }
  }
  const { found } = await probe(file, 'identity')
  t.ok(Math.abs((found.durationSeconds ?? 0) - 2.5) < 0.1, `${found.durationSeconds} s`)
})

t.test('nor can its scale of times, where its codec has a length of frames', async (t) => {
  const file = fixture('mp4-moov-first.m4a')
  const scale = file.indexOf('mdhd') + 16
  file.writeUInt32BE(file.readUInt32BE(scale) * 100, scale)
  const { found } = await probe(file, 'identity')
  t.ok(Math.abs((found.durationSeconds ?? 0) - 3.5 * (960 / 1024)) < 0.1, `${found.durationSeconds} s`)
})

t.test('blocks of ADPCM have as many samples as fit them', async (t) => {
  for (const [codec, blockBytes, samples] of [
    [0x11, 256, 505],
    [0x11, 1024, 2041],
    [2, 256, 500],
  ] as const) {
    const format = Buffer.alloc(20)
    for (const [at, value] of [
      [0, codec],
      [2, 1],
      [4, 8000],
      [12, blockBytes],
      [14, 4],
      [16, 2],
      [18, 1],
    ] as const)
      format.writeUInt16LE(value, at)
    const file = long.wavOf(format, new Uint8Array(100 * blockBytes))
    const { found } = await probe(file, 'identity')
    t.ok(Math.abs((found.durationSeconds ?? 0) - (100 * samples) / 8000) < 0.001)
  }
})
