import t from 'tap'
import type { Audio } from '../../../src/contracts/audio.ts'
import type { PartOwner } from '../../../src/contracts/parts.ts'
import { createAudioCutter } from '../../../src/gateway/long/cutter.ts'
import { planCut } from '../../../src/gateway/media/cut/plan.ts'
import { createBlocks } from '../../../src/gateway/storage/blocks.ts'
import { createBudget } from '../../../src/gateway/storage/budget.ts'
import { probed } from '../../support/decoded-speech.ts'
import { spokenWords } from '../../support/long-speech.ts'
import { memoryAudio } from '../../support/memory-audio.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'
import { pieceStore } from './piece-store.ts'

const MIB = 1024 * 1024
const WAV = spokenWords(20, 3)
const OWNER: PartOwner = { workspace: 'acme', id: 'tj_1', isJob: true }
const { signal } = new AbortController()

interface RigOptions {
  /** Which piece the store does not take. */
  readonly failsAt?: number
  readonly wav?: Buffer
  /** Bytes of memory that there are. */
  readonly limit?: number
}

/** A cutter over objects in memory. */
async function rig({ failsAt, wav = WAV, limit = 64 * MIB }: RigOptions = {}) {
  const { audio: ref, reader } = memoryAudio(wav, 'identity')
  const audio: Audio = { ...ref, ...(await probed(wav)), source: ref.source, offset: ref.offset }
  const { objects, ...stored } = pieceStore(failsAt)
  const clock = new VirtualClock()
  const budget = createBudget(limit, 0)
  const blocks = createBlocks(budget, { clock })
  const cutter = createAudioCutter({ reader, objects, blocks, budget })
  return { audio, ...stored, budget, blocks, clock, cutter }
}

t.test('parts are pieces of the store, and hold no memory', async (t) => {
  const { audio, bytesOf, budget, cutter } = await rig()
  const parts = await cutter.cut(audio, planCut(audio, { maxBytes: null, maxSeconds: 20 })!, OWNER, signal)
  t.ok(parts.length >= 4)
  for (const { audio: part, startSeconds, endSeconds } of parts) {
    if (part.source.kind !== 'pieces') return t.fail(part.source.kind)
    const bytes = bytesOf(part.source.pieces)
    t.equal(bytes.length, part.decodedBytes)
    t.match(await probed(bytes), { format: 'wav', durationSeconds: part.durationSeconds! })
    t.ok(Math.abs(part.durationSeconds! - (endSeconds - startSeconds)) < 0.001)
  }
  t.equal(budget.used, 0)
})

t.test('what was kept of audio that cannot be cut to its end is deleted', async (t) => {
  const { audio, kept, dropped, budget, blocks, clock, cutter } = await rig({ failsAt: 2 })
  const plan = planCut(audio, { maxBytes: null, maxSeconds: 20 })!
  await t.rejects(cutter.cut(audio, plan, OWNER, signal), { code: 'DEPENDENCY_UNAVAILABLE' })
  t.same(dropped, [...kept.keys()])
  t.equal(budget.used, 0)
  const stopped = AbortSignal.abort(new Error('left'))
  await t.rejects(cutter.cut(audio, plan, OWNER, stopped), { message: 'left' })
  t.equal(budget.used, 0)
  t.ok(blocks.usedBytes > 0, 'what the store may still read rests')
  await clock.advance(1_000)
  t.equal(blocks.usedBytes, 0)
})

for (const [what, limit, pieceBytes] of [
  ['while there is memory', 64 * MIB, 4 * MIB],
  ['while memory is scarce', 1, MIB],
] as const)
  t.test(`cutting takes the memory of two pieces, ${what}`, async (t) => {
    const { audio, blocks, budget, cutter } = await rig({ wav: spokenWords(400, 3), limit })
    const [part] = await cutter.cut(
      audio,
      planCut(audio, { maxBytes: null, maxSeconds: 900 })!,
      OWNER,
      signal,
    )
    if (part?.audio.source.kind !== 'pieces') return t.fail('it is not in pieces')
    const [head, ...lengths] = part.audio.source.pieces.map(({ length }) => length)
    const whole = lengths.slice(0, -1)
    t.equal(head, 44)
    t.ok(whole.length >= 2)
    t.ok(
      whole.every((length) => length === pieceBytes),
      String(lengths),
    )
    t.ok(blocks.allocatedBytes <= 2 * pieceBytes, `${blocks.allocatedBytes} bytes`)
    t.same([blocks.usedBytes, budget.used], [0, 0])
  })

t.test('a file that is none is refused with what it would have to keep to', async (t) => {
  const { audio, cutter } = await rig()
  const plan = planCut(audio, { maxBytes: 1_000_000, maxSeconds: 20 })!
  await t.rejects(cutter.cut({ ...audio, format: 'flac' }, plan, OWNER, signal), {
    code: 'INVALID_REQUEST',
    message: /970000 bytes or 19 seconds/,
  })
})
