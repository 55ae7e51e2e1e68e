import t, { type Test } from 'tap'
import { startS3 } from '../../support/s3-server.ts'
import { withoutServers } from '../../support/servers.ts'
import { waitUntil } from '../../support/wait-until.ts'
import { chunksOf } from './objects.contract.ts'
import { createRig, keysOf, MIB, noise, openS3, send, store } from './rig.ts'

/** The least after which a server that is silent is given up: one that is away is not waited for like that. */
const SILENT_MS = 4_000

const unavailable = { code: 'DEPENDENCY_UNAVAILABLE' }

async function elapsed(act: () => Promise<unknown>): Promise<number> {
  const startMs = performance.now()
  await act()
  return performance.now() - startMs
}

t.test('an S3 server', { skip: withoutServers, timeout: 180_000 }, async (t: Test) => {
  const server = await startS3(t)
  // Made before any kill: radosgw tells all its peers of a new bucket, and waits 30 s for one that is dead.
  const [killed, frozen, stale] = await Promise.all(Array.from({ length: 3 }, () => server.makeBucket()))

  await t.test('killed under uploads', { timeout: 60_000 }, async (t: Test) => {
    const objects = openS3(t, { ...server, bucket: killed! })
    const { budget, spool, open } = await createRig(t, { objects, budgetBytes: 0 })
    const writers = Array.from({ length: 16 }, () => open(20 * MIB))
    const told = writers.map(
      (writer) =>
        new Promise<Error>((resolve) => {
          writer.onFailure = resolve
        }),
    )
    await Promise.all(writers.map((writer) => writer.start()))
    await Promise.all(writers.map((writer) => send(writer, noise(2 * MIB))))
    await server.kill()
    const killedMs = performance.now()
    for (const error of await Promise.all(told)) t.match(error, unavailable, 'told while the sender sends')
    t.ok(performance.now() - killedMs < SILENT_MS, 'at once')
    for (const writer of writers) await t.rejects(writer.finish(), unavailable)
    await Promise.all(writers.map((writer) => writer.abort()))
    t.equal(budget.used, 0)
    t.equal(spool.stats().uploading, 0)

    const downMs = await elapsed(() => t.rejects(store(open(MIB), noise(MIB)), unavailable))
    t.ok(downMs < SILENT_MS, `a server that is away is found out at once (${Math.round(downMs)} ms)`)
    const pingMs = await elapsed(() => t.rejects(objects.ping(AbortSignal.timeout(20_000)), unavailable))
    t.ok(pingMs < SILENT_MS, `calls with their retries too (${Math.round(pingMs)} ms)`)

    await server.restart()
    const stored = await store(open(3 * MIB), noise(3 * MIB))
    t.equal(stored.source.kind, 'object', 'works again without a restart of ours')
    stored.release()
    await spool.close()
    t.same(await keysOf(objects), [])
  })

  await t.test('frozen', { timeout: 90_000 }, async (t: Test) => {
    const timing = { stallMs: 2_000, answerMs: 2_000 }
    const objects = openS3(t, { ...server, bucket: frozen!, timing })
    const rig = await createRig(t, { objects, budgetBytes: 0, timing: { stallMs: 2_000, memoryWaitMs: 50 } })
    const { budget, spool, open } = rig
    const body = noise(20 * MIB)
    const reader = await store(open(body.length), body)
    const key = reader.source.kind === 'object' ? reader.source.key : ''
    const stream = await objects.get(key, 0, body.length, AbortSignal.timeout(60_000))
    const chunks = stream[Symbol.asyncIterator]()
    await chunks.next()

    const writers = Array.from({ length: 32 }, () => open(20 * MIB))
    await Promise.all(writers.map((writer) => writer.start()))
    await Promise.all(writers.map((writer) => send(writer, body.subarray(0, MIB))))
    server.freeze()
    const frozenMs = performance.now()
    let mostUsed = 0
    const failures = writers.map(
      (writer) =>
        new Promise<number>((resolve) => {
          let sent = MIB
          // Each sender sends as long as it may: the system's own buffers take some megabytes yet.
          const feed = () => {
            for (; sent < body.length && writer.ready; sent += 65_536)
              writer.write(body.subarray(sent, sent + 65_536))
            mostUsed = Math.max(mostUsed, budget.used)
          }
          writer.onFailure = () => {
            sent = body.length
            resolve(performance.now() - frozenMs)
          }
          writer.onReady = feed
          feed()
        }),
    )
    const times = await Promise.all(failures)
    t.ok(mostUsed <= 32 * MIB, `memory is bounded: ${Math.round(mostUsed / MIB)} MiB for 32 uploads`)
    t.ok(
      Math.min(...times) > 1_500 && Math.max(...times) < 6_000,
      `given up after ${Math.round(Math.max(...times))} ms`,
    )
    for (const writer of writers) await t.rejects(writer.finish(), unavailable)
    const readOn = async () => {
      while ((await chunks.next()).done !== true);
    }
    await t.rejects(readOn(), unavailable, 'a read stalls no longer')
    await Promise.all(writers.map((writer) => writer.abort()))
    t.equal(budget.used, 0)

    server.thaw()
    const stored = await store(open(3 * MIB), noise(3 * MIB))
    for (const { release } of [stored, reader]) release()
    await spool.close()
    await waitUntil(async () => (await keysOf(objects)).length === 0, 5_000, 100)
    t.same(await keysOf(objects), [], 'cut uploads left no object')
  })

  await t.test('restarted: a connection that it closed meanwhile costs no upload', async (t: Test) => {
    const objects = openS3(t, { ...server, bucket: stale! })
    for (let i = 0; i < 2; i += 1) {
      await objects.put(`spool/acme/stale/${i}`, chunksOf(noise(1_000)), 1_000, {
        signal: AbortSignal.timeout(9_000),
      })
      await server.restart()
    }
    await objects.put('spool/acme/stale/2', chunksOf(noise(1_000)), 1_000, {
      signal: AbortSignal.timeout(9_000),
    })
    t.equal((await keysOf(objects)).length, 3)
  })
})
