import t, { type Test } from 'tap'
import { BLOCK_BYTES } from '../../../src/contracts/audio.ts'
import { createFileObjects } from '../../../src/gateway/storage/folder.ts'
import { tempFolder } from '../../support/scratch.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'
import { waitUntil } from '../../support/wait-until.ts'
import { testAborts } from './aborts.ts'
import { bytesOf, createRig, digest, keysOf, MIB, noise, send, store, whenReady } from './rig.ts'

const KIB = 1024
const overloaded = { code: 'OVERLOADED' }

t.test('bodies of every length come out as they went in, in every tier', async (t: Test) => {
  const lengths = [
    1,
    16 * KIB,
    16 * KIB + 1,
    BLOCK_BYTES - 1,
    BLOCK_BYTES,
    BLOCK_BYTES + 1,
    5 * MIB,
    25 * MIB,
  ]
  const rigs = [
    { tier: 'memory', budgetBytes: 64 * MIB, declared: true },
    { tier: 'object', budgetBytes: 0, declared: true },
    { tier: 'chunked', budgetBytes: 64 * MIB, declared: false },
  ]
  for (const { tier, budgetBytes, declared } of rigs) {
    const { budget, objects, spool, open } = await createRig(t, { budgetBytes, timing: { memoryWaitMs: 0 } })
    for (const length of lengths) {
      const body = noise(length)
      const stored = await store(open(declared ? length : null), body, length < MIB ? 5_000 : 500_000)
      const kind = tier === 'object' || (tier === 'chunked' && length > 5 * MIB) ? 'object' : 'memory'
      t.equal(stored.source.kind, kind, `${tier}, ${length} bytes`)
      t.equal(stored.length, length)
      t.equal(digest(await bytesOf(stored, objects)), digest(body))
      stored.release()
      stored.release()
      t.equal(budget.used, 0, 'all memory is back')
    }
    await spool.close()
    t.same(await keysOf(objects), [], 'a released object is deleted')
  }
})

t.test('an empty body is held, whatever the budget', async (t: Test) => {
  for (const budgetBytes of [0, MIB]) {
    const { open } = await createRig(t, { budgetBytes })
    for (const contentLength of [0, null]) {
      const stored = await store(open(contentLength), Buffer.alloc(0))
      t.same(stored.source, { kind: 'memory', blocks: [] })
      stored.release()
    }
  }
})

t.test('what arrives before the start is kept and charged', async (t: Test) => {
  const { budget, objects, open } = await createRig(t)
  const body = noise(2 * MIB)
  const writer = open(body.length)
  writer.write(body.subarray(0, 500_000))
  t.equal(writer.ready, false, 'the sender is to be paused')
  t.equal(budget.used, MIB)
  let told = 0
  writer.onReady = () => {
    told += 1
  }
  await writer.start()
  t.equal(told, 1)
  t.equal(budget.used, 2 * MIB, 'reserved as a whole')
  await send(writer, body.subarray(500_000))
  const stored = await writer.finish()
  t.equal(digest(await bytesOf(stored, objects)), digest(body))
})

t.test('a body waits for memory a while, then it goes to the store', async (t: Test) => {
  const clock = new VirtualClock()
  const { budget, objects, open } = await createRig(t, { budgetBytes: 8 * MIB, clock })
  const first = await store(open(7 * MIB), noise(7 * MIB))
  const waiting = open(4 * MIB)
  const started = waiting.start()
  await clock.advance(400)
  t.equal(waiting.ready, true, 'the sender may show its speed')
  waiting.write(noise(64 * KIB))
  t.equal(waiting.ready, false, 'and is paused then')
  first.release()
  await started
  await send(waiting, noise(4 * MIB - 64 * KIB))
  const second = await waiting.finish()
  t.equal(second.source.kind, 'memory', 'memory came free in time')
  const storing = store(open(5 * MIB), noise(5 * MIB))
  await clock.advance(500)
  const third = await storing
  t.equal(third.source.kind, 'object', 'and here it did not')
  t.equal(budget.used, 4 * MIB)
  for (const { release } of [second, third]) release()
  t.equal(budget.used, 0)
  t.equal((await keysOf(objects)).length <= 1, true)
})

t.test('an overdrawn budget is for the store at once, one overdrawn twice for none', async (t: Test) => {
  const clock = new VirtualClock()
  const { budget, spool, open } = await createRig(t, { budgetBytes: 4 * MIB, clock })
  budget.charge(4 * MIB + 1)
  const stored = await store(open(MIB), noise(MIB))
  t.equal(stored.source.kind, 'object')
  t.equal(clock.now(), 0, 'without a wait')
  budget.charge(4 * MIB)
  const refused = open(MIB)
  refused.write(noise(1_000))
  await t.rejects(refused.start(), overloaded)
  t.equal(spool.stats().refused, 1)
  budget.refund(8 * MIB + 1)
  t.equal(budget.used, 0, 'the refused body took its bytes with it')
})

t.test('upload permits are limited, and the next one waits for them', async (t: Test) => {
  const clock = new VirtualClock()
  const { spool, open } = await createRig(t, { budgetBytes: 0, uploadsMax: 2, clock })
  const [first, second, third, fourth] = [1, 2, 3, 4].map(() => open(MIB))
  const started = [first!, second!].map((writer) => writer.start())
  await clock.advance(500)
  await Promise.all(started)
  await Promise.all([t.rejects(third!.start(), overloaded), clock.advance(2_500)])
  const waits = fourth!.start()
  await clock.advance(600)
  await first!.abort()
  await waits
  t.equal(spool.stats().uploading, 2)
  await Promise.all([second!.abort(), fourth!.abort()])
  t.equal(spool.stats().uploading, 0)
})

t.test('a slow sender loses its memory to others, and its body is whole all the same', async (t: Test) => {
  const clock = new VirtualClock()
  const { budget, objects, spool, open } = await createRig(t, { clock })
  const body = noise(6 * MIB)
  const slow = open(body.length)
  await slow.start()
  await send(slow, body.subarray(0, 3 * MIB))
  t.equal(budget.used, 6 * MIB)
  await clock.advance(1_500)
  t.ok(await waitUntil(() => budget.used === 0), 'the beginning is in the store')
  t.equal(spool.stats().demoted, 1)
  await send(slow, body.subarray(3 * MIB), 50_000)
  const stored = await slow.finish()
  t.equal(stored.source.kind, 'object')
  t.equal(digest(await bytesOf(stored, objects)), digest(body))
  stored.release()
})

t.test('small bodies, complete ones and those without a permit are not moved', async (t: Test) => {
  const clock = new VirtualClock()
  const { budget, spool, open } = await createRig(t, { clock, uploadsMax: 0 })
  const writers = [open(64 * KIB), open(MIB), open(2 * MIB)]
  await Promise.all(writers.map((writer) => writer.start()))
  await Promise.all([
    writers[0]!.write(noise(1_000)),
    send(writers[1]!, noise(MIB)),
    send(writers[2]!, noise(MIB)),
  ])
  await clock.advance(3_000)
  t.equal(spool.stats().demoted, 0)
  t.ok(budget.used > 3 * MIB)
  for (const writer of writers) await writer.abort()
  t.equal(budget.used, 0)
})

t.test('a crawling upload gives its permit to one that waits, and only then', async (t: Test) => {
  const clock = new VirtualClock()
  const { budget, spool, open } = await createRig(t, { budgetBytes: 0, uploadsMax: 1, clock })
  const crawling = open(MIB)
  const failed = new Promise<Error>((resolve) => {
    crawling.onFailure = resolve
  })
  const started = crawling.start()
  await clock.advance(500)
  await started
  crawling.write(noise(100))
  t.ok(await waitUntil(() => budget.used === 0), 'the store has what came')
  await clock.advance(31_000)
  t.equal(spool.stats().uploading, 1, 'the permit was not wanted')
  const next = open(MIB)
  const starting = next.start()
  await clock.advance(800)
  await starting
  t.match(await failed, { code: 'REQUEST_TIMEOUT' })
  await t.rejects(crawling.finish(), { code: 'REQUEST_TIMEOUT' })
  await next.abort()
})

t.test('an upload may take so long and no longer', async (t: Test) => {
  const clock = new VirtualClock()
  const { budget, open } = await createRig(t, { budgetBytes: 0, clock, timing: { tickMs: 60_000 } })
  const writer = open(MIB)
  const failed = new Promise<Error>((resolve) => {
    writer.onFailure = resolve
  })
  const started = writer.start()
  await clock.advance(500)
  await started
  writer.write(noise(100))
  t.ok(await waitUntil(() => budget.used === 0), 'the store waits for the sender')
  await clock.advance(16 * 60_000)
  t.match(await failed, { code: 'REQUEST_TIMEOUT' })
  await writer.abort()
})

t.test('a body is no object before it is finished, even when all of it has arrived', async (t: Test) => {
  const { objects, spool, open } = await createRig(t, { budgetBytes: 0, timing: { memoryWaitMs: 0 } })
  const writer = open(MIB)
  await writer.start()
  await send(writer, noise(MIB))
  t.same(await keysOf(objects), [])
  await writer.abort()
  await spool.close()
  t.same(await keysOf(objects), [])
})

t.test('two requests under one id do not meet', async (t: Test) => {
  const { objects, open } = await createRig(t, { budgetBytes: 0, timing: { memoryWaitMs: 0 } })
  const bodies = [noise(50_000), noise(50_000)]
  const stored = await Promise.all(bodies.map((body) => store(open(body.length), body)))
  for (const [i, body] of stored.entries()) t.ok((await bytesOf(body, objects)).equals(bodies[i]!))
})

t.test('ids that callers made up cannot reach outside the spool', async (t: Test) => {
  const { objects, spool } = await createRig(t, { budgetBytes: 0, timing: { memoryWaitMs: 0 } })
  for (const id of ['../../job/x', '..', 'a/b', 'ä\0', 'x'.repeat(128)]) {
    const writer = spool.open({ workspace: '../acme', id, contentLength: 3 })
    const stored = await store(writer, Buffer.from('abc'))
    t.match(stored.source, { key: /^spool\/[A-Za-z0-9_-]+\/[A-Za-z0-9_-]+\/[0-9a-f]{16}$/ })
    stored.release()
  }
  await spool.close()
  t.same(await keysOf(objects), [])
})

t.test('a chunked body waits for the memory of a part, then it is refused', async (t: Test) => {
  const clock = new VirtualClock()
  const { budget, objects, open } = await createRig(t, { budgetBytes: 8 * MIB, clock })
  const body = noise(9 * MIB)
  const [first, refused, second] = [open(null), open(null), open(null)] as const
  for (const writer of [first, refused, second]) await writer.start()
  first.write(body.subarray(0, MIB + 1))
  await whenReady(first)
  const failed = new Promise<Error>((resolve) => {
    refused.onFailure = resolve
  })
  refused.write(body.subarray(0, MIB + 1))
  t.equal(refused.ready, false, 'the sender is to be paused')
  await clock.advance(5_000)
  t.match(await failed, overloaded)
  t.equal(refused.ready, true, 'later bytes are dropped')
  await t.rejects(refused.finish(), overloaded)

  second.write(body.subarray(0, MIB + 1))
  await first.abort()
  await whenReady(second)
  await send(second, body.subarray(MIB + 1))
  const stored = await second.finish()
  t.equal(stored.source.kind, 'object')
  t.equal(digest(await bytesOf(stored, objects)), digest(body))
  t.equal(budget.used, 0)
  stored.release()
})

t.test('chunked bodies whose beginnings fill the memory get on one after the other', async (t: Test) => {
  const { budget, spool, open } = await createRig(t, { budgetBytes: 12 * MIB })
  const body = noise(7 * MIB)
  const writers = Array.from({ length: 12 }, () => open(null))
  for (const writer of writers) await writer.start()
  for (const writer of writers) writer.write(body.subarray(0, MIB + 1))
  t.ok(budget.used > budget.limit, 'overdrawn')
  await Promise.all(
    writers.map(async (writer) => {
      await whenReady(writer)
      await send(writer, body.subarray(MIB + 1))
      const stored = await writer.finish()
      stored.release()
    }),
  )
  t.equal(spool.stats().stored, 12)
  t.equal(budget.used, 0)
})

t.test(
  'the store after a fast sender: the writer asks for a pause, and memory stays small',
  async (t: Test) => {
    const { budget, objects, open } = await createRig(t, { budgetBytes: 0, timing: { memoryWaitMs: 0 } })
    const body = noise(24 * MIB)
    const writer = open(body.length)
    await writer.start()
    let most = 0
    let pauses = 0
    for (let at = 0; at < body.length; at += 256 * KIB) {
      writer.write(body.subarray(at, at + 256 * KIB))
      most = Math.max(most, budget.used)
      if (!writer.ready) pauses += 1
      await whenReady(writer)
    }
    t.ok(pauses > 0)
    t.ok(most <= 2 * MIB, `${most} bytes at most`)
    const stored = await writer.finish()
    t.equal(digest(await bytesOf(stored, objects)), digest(body))
  },
)

t.test('a store that breaks under an upload fails it, and gives all memory back', async (t: Test) => {
  const root = await tempFolder(t)
  const objects = await createFileObjects(root)
  const { budget, spool, open } = await createRig(t, { objects, budgetBytes: 0, timing: { memoryWaitMs: 0 } })
  const writer = open(MIB)
  await writer.start()
  await send(writer, noise(MIB))
  await objects.abortUploads('', new Date(Date.now() + 60_000))
  await t.rejects(writer.finish(), { code: 'DEPENDENCY_UNAVAILABLE' })
  t.same([budget.used, spool.stats().failed, spool.stats().uploading], [0, 1, 0])
})

t.test(
  '500 senders that leave at random points leave nothing behind',
  { timeout: 120_000 },
  async (t: Test) => {
    await testAborts(t, await createFileObjects(await tempFolder(t)), 500)
  },
)

t.test('a body for a job goes to the store under its name, whatever memory there is', async (t: Test) => {
  const { budget, objects, spool } = await createRig(t)
  const filed = { workspace: 'acme', id: 'tj_1', kind: 'job' } as const
  for (const length of [1, 200 * KIB, 3 * MIB]) {
    const body = noise(length)
    const writer = spool.open({ ...filed, contentLength: length, stored: true })
    writer.write(body.subarray(0, 100))
    await writer.start()
    await send(writer, body.subarray(100))
    t.same(await keysOf(objects), [], 'nothing is there before the body is complete')
    const stored = await writer.finish()
    t.match(stored.source, { kind: 'object', key: /^job\/acme\/tj_1\/[0-9a-f]{16}$/ })
    t.equal(digest(await bytesOf(stored, objects)), digest(body))
    t.equal(budget.used, 0, 'no memory is in use')
    stored.release()
    await spool.close()
    t.same(await keysOf(objects), [])
  }
  const cut = spool.open({ ...filed, contentLength: MIB, stored: true })
  await cut.start()
  cut.write(noise(MIB - 1))
  await cut.abort()
  t.same(await keysOf(objects), [])
  t.same({ used: budget.used, uploading: spool.stats().uploading }, { used: 0, uploading: 0 })
  const endless = spool.open({ ...filed, contentLength: null, stored: true })
  await t.rejects(endless.start(), 'the store is told the length first')
})

t.test(
  'a body for a job that may be held is held; what moves to the store is of the job',
  async (t: Test) => {
    const filed = { workspace: 'acme', id: 'tj_1', kind: 'job' } as const
    const [held, moved] = await Promise.all([createRig(t), createRig(t, { budgetBytes: 0 })])
    const body = noise(MIB)
    const inMemory = await store(held.spool.open({ ...filed, contentLength: MIB }), body)
    t.equal(inMemory.source.kind, 'memory')
    const inStore = await store(moved.spool.open({ ...filed, contentLength: MIB }), body)
    t.match(inStore.source, { kind: 'object', key: /^job\/acme\/tj_1\// })
    for (const body of [inMemory, inStore]) body.release()
  },
)

t.test(
  'a body that must be stored waits for an upload permit, and is refused without one',
  async (t: Test) => {
    const clock = new VirtualClock()
    const { budget, spool } = await createRig(t, { uploadsMax: 1, clock })
    const open = () =>
      spool.open({ workspace: 'acme', id: 'tj_1', contentLength: MIB, kind: 'job', stored: true })
    const first = open()
    await first.start()
    const refused = open()
    refused.write(noise(1_000))
    await Promise.all([t.rejects(refused.start(), overloaded), clock.advance(2_000)])
    const waiting = open()
    const started = waiting.start()
    await first.abort()
    await started
    await waiting.abort()
    t.equal(spool.stats().refused, 1)
    t.same({ used: budget.used, uploading: spool.stats().uploading }, { used: 0, uploading: 0 })
  },
)
