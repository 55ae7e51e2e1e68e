import t from 'tap'
import { createMediaProbe } from '../../../src/gateway/media/probe.ts'
import { SHIPPED } from '../../../src/gateway/providers/facts.ts'
import { memoryAudio, STANDINGS } from '../../support/memory-audio.ts'
import { fixture, VERDICTS } from './fixtures.ts'
import { LAYER_II, LAYER_III, programStream } from './program-stream.ts'

function probe(bytes: Uint8Array, standing: (typeof STANDINGS)[number] = 'identity') {
  const { audio, reader, reads } = memoryAudio(bytes, standing)
  return createMediaProbe({ reader })
    .probe(audio, new AbortController().signal)
    .then((found) => ({ ...found, reads }))
}

const SECONDS = { layer2: 2, layer3: VERDICTS['mp3-cbr-bare.mp3']!.decoded_seconds }

t.test('a program stream: its audio, of both versions, however its packets cut it', async (t) => {
  for (const version of [1, 2] as const)
    for (const packetBytes of [5, 100, 287, 2_000, 60_000])
      for (const [name, audio] of Object.entries({ layer2: LAYER_II, layer3: LAYER_III })) {
        const label = `version ${version}, ${packetBytes} bytes a packet, ${name}`
        for (const video of [0, 2]) {
          const { format, channels, durationSeconds } = await probe(
            programStream(audio, { version, packetBytes, video }),
          )
          t.same([format, channels], ['mpeg', 1], label)
          const expected = SECONDS[name as keyof typeof SECONDS]
          t.ok(Math.abs((durationSeconds ?? 0) - expected) < 0.1, `${label}: ${durationSeconds} s`)
        }
      }
})

t.test('wherever it is stored', async (t) => {
  const bytes = programStream(LAYER_II, { version: 2, packetBytes: 2_000, video: 1 })
  for (const standing of STANDINGS) {
    const { durationSeconds, reads } = await probe(bytes, standing)
    t.ok(Math.abs((durationSeconds ?? 0) - 2) < 0.1, standing)
    t.ok(reads.ranges.length <= 4 && reads.passes <= 2 && reads.open === 0, `${standing}: read once`)
  }
})

t.test('a long one is counted whole, in a pass', async (t) => {
  const long = Buffer.concat(Array.from({ length: 400 }, () => LAYER_II))
  const bytes = programStream(long, { version: 1, packetBytes: 2_324 })
  t.ok(bytes.length > 3 * 1024 * 1024)
  const { durationSeconds, reads } = await probe(bytes)
  const each = (await probe(LAYER_II)).durationSeconds!
  t.ok(Math.abs((durationSeconds ?? 0) - 400 * each) < 0.5, `${durationSeconds} s`)
  t.ok(reads.passes <= 1)
})

t.test('of two audio streams the first counts; without one there is no duration', async (t) => {
  const first = programStream(LAYER_II, { version: 2, packetBytes: 500, stream: 0xc3 })
  const second = programStream(LAYER_III, { version: 2, packetBytes: 500, stream: 0xc0 })
  const { durationSeconds } = await probe(Buffer.concat([first, second]))
  t.ok(Math.abs((durationSeconds ?? 0) - 2) < 0.1)
  t.match(await probe(programStream(LAYER_II, { version: 2, packetBytes: 500, stream: 0xe0 })), {
    format: 'mpeg',
    durationSeconds: null,
    channels: null,
  })
})

t.test('damage in between costs what it covers', async (t) => {
  const whole = programStream(LAYER_II, { version: 1, packetBytes: 700 })
  const damaged = Buffer.from(whole)
  damaged.fill(0x55, 3_000, 4_000)
  const { durationSeconds } = await probe(damaged)
  t.ok((durationSeconds ?? 0) > 1.5 && (durationSeconds ?? 9) < 2.1, `${durationSeconds} s`)
  const cut = await probe(whole.subarray(0, whole.length / 2))
  t.ok(Math.abs((cut.durationSeconds ?? 0) - 1) < 0.15, `half: ${cut.durationSeconds} s`)
})

t.test('bare video, a transport stream and layer II alone stay what they are', async (t) => {
  const transport = Buffer.alloc(188 * 4)
  for (let at = 0; at < transport.length; at += 188) transport[at] = 0x47
  for (const bytes of [transport, Buffer.from('000001b3140000000001000000', 'hex')])
    t.match(await probe(bytes), { format: 'other', durationSeconds: null })
  t.match(await probe(fixture('mp3-layer2.mp3')), { format: 'mp3' })
})

t.test('it goes to providers whose pages name it, and to no other', async (t) => {
  for (const [kind, takes] of [
    ['openai', true],
    ['groq', true],
    ['elevenlabs', true],
    ['sandbox', true],
    ['deepgram', false],
    ['assemblyai', false],
    ['mistral', false],
    ['gemini', false],
  ] as const) {
    const models = SHIPPED.all().filter((model) => model.kind === kind)
    const lists = models.flatMap(({ model }) => SHIPPED.factsOf(kind, model)?.limits.audio_formats ?? [])
    t.ok(lists.length > 0, kind)
    t.equal(lists.includes('mpeg'), takes, kind)
  }
})
