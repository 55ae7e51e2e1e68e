import { spawnSync } from 'node:child_process'
import fc from 'fast-check'
import t from 'tap'
import type { Audio } from '../../../src/contracts/audio.ts'
import { GatewayError } from '../../../src/contracts/errors.ts'
import type { Transcoding } from '../../../src/contracts/parts.ts'
import { systemClock } from '../../../src/contracts/time.ts'
import { createAudioTranscoder } from '../../../src/gateway/long/transcoder.ts'
import { createMediaProbe } from '../../../src/gateway/media/probe.ts'
import { createBlocks } from '../../../src/gateway/storage/blocks.ts'
import { createBudget } from '../../../src/gateway/storage/budget.ts'
import { memoryAudio } from '../../support/memory-audio.ts'
import { change, mutated } from '../../support/mutations.ts'
import { fixture, formatOf, VERDICTS } from '../media/fixtures.ts'
import { pieceStore } from './piece-store.ts'

/** As many as the environment asks for; a sample in each run: each is a process. */
const RUNS = Number(process.env.LARKWAY_TEST_HOSTILE ?? 12)
const OWNER = { workspace: 'acme', id: 'tj_1', isJob: true }
const LIMIT_MS = 30_000
const LIMITS = { maxBytes: null, maxSeconds: null }
const skip = spawnSync('ffmpeg', ['-version']).status === 0 ? false : 'ffmpeg is not installed'

t.setTimeout(3_600_000)

/** Transcodes, and holds what must hold of any bytes. @returns the audio that was made; null: it was refused */
async function transcoded(bytes: Buffer, to: Transcoding, limitMs = LIMIT_MS) {
  const { audio: ref, reader } = memoryAudio(bytes, 'identity')
  const { signal } = new AbortController()
  const audio: Audio = await createMediaProbe({ reader }).probe(ref, signal)
  const store = pieceStore()
  const budget = createBudget(64 * 1024 * 1024, 0)
  let isAtRest = false
  const made = async () => {
    const probe = {
      async probe({ source }: Audio) {
        if (source.kind !== 'pieces') throw new Error(source.kind)
        const whole = memoryAudio(store.bytesOf(source.pieces), 'identity')
        return await createMediaProbe(whole).probe(whole.audio, signal)
      },
    }
    const parts = {
      reader,
      probe,
      budget,
      blocks: createBlocks(budget),
      objects: store.objects,
      clock: systemClock,
      path: process.env.PATH,
    }
    const transcoder = createAudioTranscoder(parts as Parameters<typeof createAudioTranscoder>[0])
    return await transcoder.transcode(audio, to, OWNER, limitMs, signal)
  }
  try {
    const found = await made().finally(() => {
      isAtRest = budget.used === 0
    })
    if (!isAtRest) throw new Error('memory is left')
    if (found.format !== to.format) throw new Error(`${found.format} is made, not ${to.format}`)
    return found
  } catch (error) {
    if (!isAtRest || !(error instanceof GatewayError)) throw error
    if (error.code !== 'UNSUPPORTED_AUDIO_FORMAT') throw error
    await new Promise(setImmediate)
    if (store.dropped.length !== store.kept.size) throw new Error('something is left of it')
    return null
  }
}

t.test('every fixture is as long as before, the formats in turns', { skip }, async (t) => {
  for (const [index, [name, { decoded_seconds: seconds }]] of Object.entries(VERDICTS).entries()) {
    const format = index % 2 === 0 ? 'ogg' : 'wav'
    const made = await transcoded(fixture(name), { format, channels: 1, limits: LIMITS })
    const isAudio = seconds > 0
    if (made === null) t.notOk(isAudio, `${name} to ${format} is refused`)
    else {
      const off = Math.abs(made.durationSeconds! - seconds)
      t.ok(off < 0.15, `${name} to ${format}: ${made.durationSeconds} s`)
    }
  }
  const stereo = await transcoded(fixture('flac-stereo-24.flac'), {
    format: 'wav',
    channels: 2,
    limits: LIMITS,
  })
  t.equal(stereo?.channels, 2)
})

t.test(`${RUNS} mutated files are transcoded or refused, within bounds`, { skip }, async (t) => {
  const files = Object.keys(VERDICTS).filter((name) => formatOf(name) !== 'mp3')
  const counts = { made: 0, refused: 0 }
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...files),
      fc.array(change, { minLength: 1, maxLength: 8 }),
      fc.constantFrom('ogg', 'wav'),
      async (name, changes, format) => {
        const bytes = mutated(fixture(name), changes)
        // Otherwise most of them are no audio at all.
        fixture(name).copy(bytes, 0, 0, 48)
        const made = await transcoded(bytes, { format, channels: 1, limits: LIMITS })
        counts[made === null ? 'refused' : 'made'] += 1
      },
    ),
    { numRuns: RUNS, endOnFailure: true },
  )
  t.ok(counts.made > RUNS / 10, JSON.stringify(counts))
})

t.test('what takes longer than it may is ended', { skip }, async (t) => {
  const flac = fixture('flac-mono.flac')
  await t.rejects(transcoded(flac, { format: 'ogg', channels: 1, limits: LIMITS }, 1), {
    code: 'UPSTREAM_TIMEOUT',
  })
})
