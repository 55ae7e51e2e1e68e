import t from 'tap'
import type { Audio } from '../../../src/contracts/audio.ts'
import type { PartOwner } from '../../../src/contracts/parts.ts'
import { createAudioCutter } from '../../../src/gateway/long/cutter.ts'
import { planCut } from '../../../src/gateway/media/cut/plan.ts'
import { createBudget } from '../../../src/gateway/storage/budget.ts'
import { probed } from '../../support/decoded-speech.ts'
import { spokenWords } from '../../support/long-speech.ts'
import { memoryAudio } from '../../support/memory-audio.ts'
import { pieceStore } from '../../support/piece-store.ts'

const WAV = spokenWords(20, 3)
const OWNER: PartOwner = { workspace: 'acme', id: 'tj_1', isJob: true }
const { signal } = new AbortController()

/** A cutter over objects in memory. */
async function rig(failsAt?: number) {
  const { audio: ref, reader } = memoryAudio(WAV, 'identity')
  const audio: Audio = { ...ref, ...(await probed(WAV)), source: ref.source, offset: ref.offset }
  const { objects, ...stored } = pieceStore(failsAt)
  const budget = createBudget(64 * 1024 * 1024, 0)
  return { audio, ...stored, budget, cutter: createAudioCutter({ reader, objects, budget }) }
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
  const { audio, kept, dropped, budget, cutter } = await rig(2)
  const plan = planCut(audio, { maxBytes: null, maxSeconds: 20 })!
  await t.rejects(cutter.cut(audio, plan, OWNER, signal), { code: 'DEPENDENCY_UNAVAILABLE' })
  t.same(dropped, [...kept.keys()])
  t.equal(budget.used, 0)
  const stopped = AbortSignal.abort(new Error('left'))
  await t.rejects(cutter.cut(audio, plan, OWNER, stopped), { message: 'left' })
  t.equal(budget.used, 0)
})

t.test('a file that is none is refused with what it would have to keep to', async (t) => {
  const { audio, cutter } = await rig()
  const plan = planCut(audio, { maxBytes: 1_000_000, maxSeconds: 20 })!
  await t.rejects(cutter.cut({ ...audio, format: 'flac' }, plan, OWNER, signal), {
    code: 'INVALID_REQUEST',
    message: /970000 bytes or 19 seconds/,
  })
})
