import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { ArrivingBody } from '../../../src/contracts/audio.ts'
import type { BodyWriter } from '../../../src/contracts/spool.ts'
import { nextTurn } from '../../../src/contracts/time.ts'
import { Dice } from '../../support/dice.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'
import { waitUntil } from '../../support/wait-until.ts'
import { createRig, digest, keysOf, MIB, noise, send, store, whenReady } from './rig.ts'

const KIB = 1024

async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await nextTurn()
}

/** Lets a body be read, but for its last byte. */
function arrivingOf(writer: BodyWriter, length: number): ArrivingBody {
  const arriving = writer.arriving!()
  arriving.holdBack(length - 1)
  return arriving
}

/** Reads a body in the background, and keeps copies of what it gets. */
function read(body: ArrivingBody, start: number, end: number, signal = AbortSignal.timeout(20_000)) {
  const chunks: Buffer[] = []
  let length = 0
  const ended = (async () => {
    for await (const chunk of body.bytes(start, end, signal)) {
      chunks.push(Buffer.from(chunk))
      length += chunk.length
    }
  })()
  ended.catch(() => {})
  return { bytes: () => Buffer.concat(chunks), length: () => length, ended }
}

t.test('a body is read as far as it has come, wherever it goes', async (t: Test) => {
  for (const budgetBytes of [64 * MIB, MIB / 2]) {
    const { budget, objects, spool, open } = await createRig(t, { budgetBytes, timing: { memoryWaitMs: 0 } })
    const body = noise(3 * MIB + 77)
    const writer = open(body.length)
    const arriving = arrivingOf(writer, body.length)
    const reader = read(arriving, 0, body.length)
    await writer.start()
    for (let at = 0; at < body.length; at += 100_000) {
      const chunk = Uint8Array.from(body.subarray(at, at + 100_000))
      const ready = whenReady(writer)
      writer.write(chunk)
      chunk.fill(0xee)
      await ready
      const here = Math.min(at + 100_000, body.length - 1)
      await until(() => reader.length() === here)
    }
    const stored = await writer.finish()
    t.equal(stored.source.kind, budgetBytes < MIB ? 'object' : 'memory')
    await sleep(20)
    t.equal(reader.length(), body.length - 1, 'the last byte waits for the verdict')
    arriving.confirm()
    await reader.ended
    t.equal(digest(reader.bytes()), digest(body))
    const again = read(arriving, 5, body.length)
    await again.ended
    t.equal(digest(again.bytes()), digest(body.subarray(5)), 'what is at rest is read again')
    stored.release()
    await spool.close()
    t.equal(budget.used, 0, 'all memory is back')
    t.same(await keysOf(objects), [])
  }
})

t.test('a reader that does not keep up continues from the object, and holds no one up', async (t: Test) => {
  const { budget, spool, open } = await createRig(t, { budgetBytes: MIB / 2, timing: { memoryWaitMs: 0 } })
  const body = noise(4 * MIB)
  const writer = open(body.length)
  const arriving = arrivingOf(writer, body.length)
  const chunks = arriving.bytes(0, body.length, AbortSignal.timeout(20_000))
  const first = chunks.next()
  const finishing = store(writer, body, 64 * KIB)
  const got = [Buffer.from((await first).value as Uint8Array)]
  const stored = await finishing
  t.equal(stored.source.kind, 'object', 'it has arrived while it was not read on')
  arriving.confirm()
  for await (const chunk of chunks) got.push(Buffer.from(chunk))
  t.equal(digest(Buffer.concat(got)), digest(body))
  stored.release()
  await spool.close()
  t.equal(budget.used, 0)
})

t.test('a reader continues where a held body moves to the store', async (t: Test) => {
  const clock = new VirtualClock()
  const { budget, spool, open } = await createRig(t, { clock })
  const body = noise(8 * MIB)
  const writer = open(body.length)
  const arriving = arrivingOf(writer, body.length)
  const reader = read(arriving, 0, body.length)
  await writer.start()
  await send(writer, body.subarray(0, 300 * KIB))
  let at = 300 * KIB
  while (spool.stats().demoted === 0) {
    await send(writer, body.subarray(at, at + 1_000))
    at += 1_000
    await clock.advance(100)
  }
  await send(writer, body.subarray(at, at + 5_000))
  await until(() => reader.length() === at + 5_000)
  const isGivenBack = () => budget.used < 2 * MIB
  t.ok(await waitUntil(isGivenBack), 'what was set aside for it is given back, but for one block in slices')
  await send(writer, body.subarray(at + 5_000))
  const stored = await writer.finish()
  t.equal(stored.source.kind, 'object')
  arriving.confirm()
  await reader.ended
  t.equal(digest(reader.bytes()), digest(body))
  t.ok(arriving.waitedMs > 200, 'it has waited for the sender')
  stored.release()
  await spool.close()
  t.equal(budget.used, 0)
})

t.test('a body that ends early ends its readers', async (t: Test) => {
  for (const budgetBytes of [64 * MIB, MIB / 2]) {
    const { budget, spool, open } = await createRig(t, { budgetBytes, timing: { memoryWaitMs: 0 } })
    const writer = open(MIB)
    const reader = read(writer.arriving!(), 0, MIB)
    await writer.start()
    await send(writer, noise(100_000))
    await until(() => reader.length() === 100_000)
    await writer.abort()
    await t.rejects(reader.ended, { code: 'CLIENT_CLOSED' })
    await spool.close()
    t.ok(await waitUntil(() => budget.used === 0), 'all memory is back, when no socket can have it any more')
  }
})

t.test('a reader that is aborted leaves, also while it waits', async (t: Test) => {
  const { budget, open } = await createRig(t)
  const writer = open(MIB)
  const leaving = new AbortController()
  const reader = read(writer.arriving!(), 0, MIB, leaving.signal)
  await writer.start()
  await send(writer, noise(100_000))
  await until(() => reader.length() === 100_000)
  leaving.abort(new Error('left'))
  await t.rejects(reader.ended, { message: 'left' })
  await writer.abort()
  t.ok(await waitUntil(() => budget.used === 0))
})

t.test(
  'whatever happens while it comes, readers get the very bytes',
  { timeout: 60_000 },
  async (t: Test) => {
    const dice = new Dice(20_261_121)
    for (let round = 0; round < 40; round += 1) {
      const clock = new VirtualClock()
      const budgetBytes = dice.one([MIB / 2, 4 * MIB, 64 * MIB])
      const { budget, spool, open } = await createRig(t, { budgetBytes, clock })
      const body = noise(1 + dice.below(3 * MIB))
      const writer = open(body.length)
      const arriving = writer.arriving!()
      const starts = Array.from({ length: 1 + dice.below(3) }, () =>
        dice.chance(0.5) ? 0 : dice.below(body.length),
      )
      const readers = starts.map((start) => read(arriving, start, body.length))
      const starting = writer.start()
      await clock.advance(1_000)
      for (let at = 0; at < body.length; ) {
        const end = Math.min(body.length, at + 1 + dice.below(dice.one([1_000, 100_000, 600_000])))
        await send(writer, body.subarray(at, end), MIB)
        if (dice.chance(0.2)) await clock.advance(dice.below(1_000))
        at = end
      }
      await starting
      const stored = await writer.finish()
      arriving.confirm()
      await Promise.all(readers.map(({ ended }) => ended))
      for (const [i, start] of starts.entries()) {
        const isSame = digest(readers[i]!.bytes()) === digest(body.subarray(start))
        if (!isSame) t.fail(`round ${round}: from ${start} of ${body.length}, with ${budgetBytes} bytes`)
      }
      stored.release()
      await spool.close()
      await clock.advance(1_000)
      t.equal(budget.used, 0, stored.source.kind)
    }
  },
)

t.test('only a body of known length is read before its end', async (t: Test) => {
  const { open } = await createRig(t)
  t.throws(() => open(null).arriving!())
  const writer = open(MIB)
  await writer.start()
  t.throws(() => writer.arriving!(), 'and only from its beginning on')
  await writer.abort()
})
