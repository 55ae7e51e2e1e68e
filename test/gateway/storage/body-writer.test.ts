import t, { type Test } from 'tap'
import type { GatewayError } from '../../../src/contracts/errors.ts'
import type { BodyWriter } from '../../../src/contracts/spool.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'
import { bytesOf, createRig, digest, MIB, noise, send, store } from './rig.ts'

const KIB = 1024
/** Past the wait for memory, and past the windows in which senders are judged. */
const JUDGED_MS = 1_500

/** Resolves with what the writer's owner is told while the sender sends. */
function failureOf(writer: BodyWriter): Promise<GatewayError> {
  return new Promise((resolve) => {
    writer.onFailure = (error) => resolve(error as GatewayError)
  })
}

/** An upload of 20 MiB by a sender that brings nothing, as there is no memory for it. */
async function startUpload(open: (length: number) => BodyWriter, clock: VirtualClock): Promise<BodyWriter> {
  const writer = open(20 * MIB)
  const started = writer.start()
  await clock.advance(JUDGED_MS)
  await started
  return writer
}

t.test('what comes in the turn of the start is charged once', async (t: Test) => {
  for (const [length, charged] of [
    [150_000, MIB],
    [MIB, MIB],
    [5 * MIB, 5 * MIB],
  ] as const) {
    const { budget, open } = await createRig(t)
    const writer = open(length)
    const started = writer.start()
    writer.write(noise(100_000))
    await started
    t.equal(budget.used, charged, `${length} bytes`)
    await writer.abort()
  }
})

t.test('a body that waits for memory takes what it needs, and as much less of it later', async (t: Test) => {
  const { budget, objects, open } = await createRig(t, { budgetBytes: 8 * MIB })
  const first = await store(open(8 * MIB), noise(8 * MIB))
  const body = noise(4 * MIB + 300 * KIB)
  const waiting = open(body.length)
  const started = waiting.start()
  waiting.write(body.subarray(0, 10 * KIB))
  t.equal(budget.used, 9 * MIB, 'a slice of one block')
  first.release()
  await started
  t.equal(budget.used, 5 * MIB + MIB - 16 * KIB, 'the whole of the body, and the rest of the block in slices')
  await send(waiting, body.subarray(10 * KIB))
  t.equal(budget.used, 5 * MIB)
  const stored = await waiting.finish()
  t.equal(digest(await bytesOf(stored, objects)), digest(body))
  stored.release()
  t.equal(budget.used, 0)
})

t.test('slow senders without a permit are refused, as many as others need', async (t: Test) => {
  const clock = new VirtualClock()
  const { budget, spool, open } = await createRig(t, { budgetBytes: 8 * MIB, uploadsMax: 1, clock })
  const uploading = await startUpload(open, clock)
  t.equal(spool.stats().uploading, 1, 'the only permit is taken')
  const slow = Array.from({ length: 8 }, () => open(MIB))
  await Promise.all(slow.map((writer) => writer.start()))
  await clock.advance(JUDGED_MS)
  t.equal(budget.used, 8 * MIB, 'no one is in need')
  t.equal(spool.stats().refused, 0)

  const told: GatewayError[] = []
  for (const writer of slow) writer.onFailure = (error) => told.push(error as GatewayError)
  const body = noise(2 * MIB)
  const fast = open(body.length)
  const started = fast.start()
  fast.write(body.subarray(0, 100_000))
  await clock.advance(JUDGED_MS)
  await started
  await send(fast, body.subarray(100_000))
  const stored = await fast.finish()
  t.equal(stored.source.kind, 'memory')
  t.equal(spool.stats().refused, 3, 'its two blocks, and the one in slices that its beginning was in')
  t.equal(told.length, 3)
  for (const { code, extra } of told) t.same([code, extra.retryAfterMs], ['OVERLOADED', 30_000])
  stored.release()
  await Promise.all([uploading, ...slow].map((writer) => writer.abort()))
  t.equal(budget.used, 0)
})

t.test('a body that waits for a permit keeps its turn for memory', async (t: Test) => {
  const clock = new VirtualClock()
  const { budget, spool, open } = await createRig(t, { budgetBytes: 8 * MIB, uploadsMax: 1, clock })
  const uploading = await startUpload(open, clock)
  const held = await store(open(8 * MIB), noise(8 * MIB))
  const body = noise(4 * MIB)
  const waiting = open(body.length)
  const started = waiting.start()
  waiting.write(body.subarray(0, 64 * KIB))
  await clock.advance(JUDGED_MS)
  held.release()
  await started
  t.equal(spool.stats().uploading, 1, 'memory came first')
  await send(waiting, body.subarray(64 * KIB))
  const stored = await waiting.finish()
  t.equal(stored.source.kind, 'memory')

  const next = open(5 * MIB)
  const starting = next.start()
  next.write(body.subarray(0, 64 * KIB))
  await clock.advance(JUDGED_MS)
  await uploading.abort()
  await starting
  t.equal(spool.stats().uploading, 1, 'a permit came first')
  stored.release()
  await next.abort()
  t.equal(budget.used, 0)
})

t.test('one that shows itself slow while it waits leaves the memory to others', async (t: Test) => {
  const clock = new VirtualClock()
  const { budget, open } = await createRig(t, { budgetBytes: 8 * MIB, uploadsMax: 1, clock })
  const uploading = await startUpload(open, clock)
  const held = await store(open(8 * MIB), noise(8 * MIB))
  const slow = open(2 * MIB)
  const refused = t.rejects(slow.start(), { code: 'OVERLOADED', extra: { retryAfterMs: 30_000 } })
  slow.write(noise(4_000))
  const fast = open(3 * MIB)
  const started = fast.start()
  fast.write(noise(100_000))
  await clock.advance(JUDGED_MS)
  t.equal(budget.waiting, 1, 'the fast one waits alone')
  held.release()
  await started
  await clock.advance(JUDGED_MS)
  await refused
  await Promise.all([uploading.abort(), fast.abort()])
  t.equal(budget.used, 0)
})

t.test('one that leaves while it waits takes nothing', async (t: Test) => {
  const clock = new VirtualClock()
  const { budget, spool, open } = await createRig(t, { budgetBytes: 8 * MIB, uploadsMax: 1, clock })
  const uploading = await startUpload(open, clock)
  const held = await store(open(8 * MIB), noise(8 * MIB))
  for (const waitMs of [0, 20, JUDGED_MS]) {
    const leaving = open(2 * MIB)
    const started = leaving.start()
    leaving.write(noise(70_000))
    await clock.advance(waitMs)
    await Promise.all([t.rejects(started, { code: 'CLIENT_CLOSED' }), leaving.abort()])
    t.equal(budget.waiting, 0)
  }
  held.release()
  await uploading.abort()
  t.equal(budget.used, 0)
  t.equal(spool.stats().uploading, 0)
})

t.test(
  'what is reserved for a body goes to another workspace that asks, and the body to the store',
  async (t: Test) => {
    const { budget, objects, open } = await createRig(t, { budgetBytes: 8 * MIB })
    const body = noise(8 * MIB)
    const greedy = open(body.length)
    await greedy.start()
    await send(greedy, body.subarray(0, MIB))
    t.equal(budget.used, 8 * MIB)
    const stored = await store(open(2 * MIB, 'modest'), noise(2 * MIB))
    t.equal(stored.source.kind, 'memory', 'at once')
    t.ok(budget.used <= 4 * MIB, `${budget.used} are held`)
    await send(greedy, body.subarray(MIB))
    const moved = await greedy.finish()
    t.equal(moved.source.kind, 'object')
    t.equal(digest(await bytesOf(moved, objects)), digest(body))
    for (const held of [stored, moved]) held.release()
    t.equal(budget.used, 0)
  },
)

t.test('upload permits and the memory of parts go from who is slow to another workspace', async (t: Test) => {
  const clock = new VirtualClock()
  const permits = await createRig(t, { budgetBytes: 0, uploadsMax: 2, clock })
  const uploads = [await startUpload(permits.open, clock), await startUpload(permits.open, clock)]
  const told = Promise.race(uploads.map(failureOf))
  const next = permits.open(MIB, 'modest')
  const starting = next.start()
  // Many looks of the judge, most of them while the store still lets that upload go.
  await clock.advance(JUDGED_MS)
  await starting
  t.match(await told, { code: 'OVERLOADED', extra: { retryAfterMs: 30_000 } })
  t.equal(permits.spool.stats().uploading, 2, 'one of the two stays')
  await Promise.all([...uploads, next].map((writer) => writer.abort()))
  t.same([permits.budget.used, permits.spool.stats().uploading], [0, 0])

  const parts = await createRig(t, { budgetBytes: 24 * MIB, clock })
  const chunked = [parts.open(null), parts.open(null)]
  for (const writer of chunked) {
    await writer.start()
    await send(writer, noise(MIB + 1), MIB + 1)
  }
  t.ok(parts.budget.used >= 12 * MIB, 'each has the memory of a part')
  const refused = Promise.race(chunked.map(failureOf))
  const body = noise(7 * MIB)
  const storing = store(parts.open(null, 'modest'), body, MIB + 1)
  await clock.advance(JUDGED_MS)
  const stored = await storing
  t.match(await refused, { code: 'OVERLOADED' })
  t.equal(digest(await bytesOf(stored, parts.objects)), digest(body))
  stored.release()
  await Promise.all(chunked.map((writer) => writer.abort()))
  t.equal(parts.budget.used, 0)
})
