import fc from 'fast-check'
import t from 'tap'
import { GatewayError } from '../../../../src/contracts/errors.ts'
import type { CutPlan } from '../../../../src/contracts/parts.ts'
import { cutSound } from '../../../../src/gateway/media/cut/cutting.ts'
import { NO_SOUND, type Sound, Uncuttable } from '../../../../src/gateway/media/cut/sound.ts'
import { WAV_CODEC } from '../../../../src/gateway/media/wav-format.ts'
import { change, mutated } from '../../../support/mutations.ts'
import { cutFile, plainPlan } from '../cut-audio.ts'
import { fixture, formatOf, VERDICTS } from '../fixtures.ts'
import { wavOf } from '../long-audio.ts'

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
