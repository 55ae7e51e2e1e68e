import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import type { Objects } from '../../../src/contracts/objects.ts'
import type { BodyWriter } from '../../../src/contracts/spool.ts'
import { createRig, keysOf, MIB, noise } from './rig.ts'

const BODY = noise(12 * MIB)
/** Where a sender leaves: before the start, while starting, after some of the body, before or while finishing. */
const POINTS = ['new', 'starting', 'body', 'whole', 'finishing', 'finished'] as const

const pick = <T>(from: readonly T[]): T => from[Math.floor(Math.random() * from.length)]!

/** Sends until a random point and leaves there. What the body would have become does not matter to it. */
async function sendAndLeave(writer: BodyWriter, length: number): Promise<void> {
  const point = pick(POINTS)
  writer.write(BODY.subarray(0, Math.min(length, 1_000)))
  if (point === 'new') return writer.abort()
  const starting = writer.start()
  starting.catch(() => {})
  if (point === 'starting') {
    await sleep(Math.random() * 5)
    return writer.abort()
  }
  await starting
  const end = point === 'body' ? Math.floor(Math.random() * length) : length
  for (let at = 1_000; at < end; at += 300_000) {
    writer.write(BODY.subarray(at, Math.min(at + 300_000, end)))
    if (!writer.ready && Math.random() < 0.9) await sleep(1)
    // Some are slow, so that held bodies move to the store under way.
    if (Math.random() < 0.15) await sleep(30)
  }
  if (point === 'body' || point === 'whole') return writer.abort()
  const finishing = writer.finish()
  finishing.catch(() => {})
  if (point === 'finishing') {
    await sleep(Math.random() * 20)
    await writer.abort()
    // The abort may have come too late; then the body is the caller's to release, as always.
    await finishing.then(
      (body) => body.release(),
      () => {},
    )
    return
  }
  const body = await finishing
  body.release()
  await writer.abort()
}

/**
 * At least `count` senders of all kinds that leave at random points, and up to ten times as many until some have used
 * the store, the memory and the way from one to the other; afterwards nothing of them may be anywhere.
 */
export async function testAborts(t: Test, objects: Objects, count: number): Promise<void> {
  const rig = await createRig(t, {
    objects,
    budgetBytes: 24 * MIB,
    uploadsMax: 12,
    timing: { memoryWaitMs: 5, slowWindowMs: 20, tickMs: 4 },
  })
  const { blocks, budget, spool, open } = rig
  let sent = 0
  let refused = 0
  const allWaysUsed = () => {
    const { stored, held, demoted } = spool.stats()
    return stored > count / 50 && held > count / 50 && demoted > count / 250
  }
  const sender = async () => {
    while (sent < count || (!allWaysUsed() && sent < 10 * count)) {
      sent += 1
      const length = Math.floor(pick([5_000, 300_000, 3 * MIB, 12 * MIB]) * (0.5 + Math.random() / 2))
      const writer = open(pick([length, length, null]), pick(['a', 'b', 'c']))
      await sendAndLeave(writer, length).catch(async (error: { code?: string }) => {
        if (error.code !== 'OVERLOADED') throw error
        refused += 1
        await writer.abort()
      })
    }
  }
  await Promise.all(Array.from({ length: 16 }, sender))
  await spool.close()
  const stats = spool.stats()
  t.comment(JSON.stringify({ ...stats, sent, refused }))
  t.ok(allWaysUsed(), 'the store and the memory were in use, and bodies moved from one to the other')
  t.equal(budget.used, 0, 'the budget has all its bytes back')
  t.equal(budget.waiting, 0)
  t.equal(blocks.usedBytes, 0, 'the pool has all its blocks back')
  t.same({ arriving: stats.arriving, uploading: stats.uploading }, { arriving: 0, uploading: 0 })
  t.same(await keysOf(objects), [], 'no object is left')
  t.equal(await objects.abortUploads('', new Date(Date.now() + 60_000)), 0, 'no part upload is left')
}
