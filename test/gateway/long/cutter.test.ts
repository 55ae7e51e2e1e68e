import t from 'tap'
import type { Audio, BodyPiece } from '../../../src/contracts/audio.ts'
import { GatewayError } from '../../../src/contracts/errors.ts'
import type { PartOwner } from '../../../src/contracts/parts.ts'
import { createAudioCutter } from '../../../src/gateway/long/cutter.ts'
import { planCut } from '../../../src/gateway/media/cut/plan.ts'
import { createBudget } from '../../../src/gateway/storage/budget.ts'
import { probed } from '../../support/decoded-speech.ts'
import { spokenWords } from '../../support/long-speech.ts'
import { memoryAudio } from '../../support/memory-audio.ts'

const WAV = spokenWords(20, 3)
const OWNER: PartOwner = { workspace: 'acme', id: 'tj_1', isJob: true }
const { signal } = new AbortController()

/** A cutter over objects in memory. @param failsAt the object that is not kept; absent: all are */
async function rig(failsAt = Number.POSITIVE_INFINITY) {
  const { audio: ref, reader } = memoryAudio(WAV, 'identity')
  const audio: Audio = { ...ref, ...(await probed(WAV)), source: ref.source, offset: ref.offset }
  const kept = new Map<string, Buffer>()
  const dropped: string[] = []
  const budget = createBudget(64 * 1024 * 1024, 0)
  const objects = {
    async keepPiece(_: PartOwner, chunks: readonly Uint8Array[]) {
      if (kept.size === failsAt) throw new GatewayError('DEPENDENCY_UNAVAILABLE')
      const bytes = Buffer.concat(chunks)
      const object = `job/acme/tj_1/${kept.size}`
      kept.set(object, bytes)
      return { object, bytes: bytes.length }
    },
    async dropPieces(pieces: readonly BodyPiece[]) {
      dropped.push(...pieces.map(({ key }) => key))
    },
  }
  return { audio, kept, dropped, budget, cutter: createAudioCutter({ reader, objects, budget }) }
}

t.test('parts are pieces of the store, and hold no memory', async (t) => {
  const { audio, kept, budget, cutter } = await rig()
  const parts = await cutter.cut(audio, planCut(audio, { maxBytes: null, maxSeconds: 20 })!, OWNER, signal)
  t.ok(parts.length >= 4)
  for (const { audio: part, startSeconds, endSeconds } of parts) {
    if (part.source.kind !== 'pieces') return t.fail(part.source.kind)
    const bytes = Buffer.concat(part.source.pieces.map(({ key }) => kept.get(key)!))
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
