import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { startDemoProcess } from '../support/demo-route.ts'
import { assertStopsClean } from '../support/gateway.ts'
import { MemoryWatch, residentMiB } from '../support/process-load.ts'
import { type Bucket, openBucket, startS3 } from '../support/s3-server.ts'
import { withoutServers } from '../support/servers.ts'
import { type Senders, startSenders } from './senders.ts'

const MEMORY_MIB = 64
const SLOW_CLIENTS = 500
/** Uploads at a time that a gateway has with S3. */
const UPLOADS_MAX = 256
/** Alone and beside the slow ones, until a round is fast enough; a test has no machine to itself. */
const ROUNDS_MAX = 4
const ALONE_MS = 3_000
/** Long enough, with the settling, for what the slow ones send to be more than the memory. */
const BESIDE_MS = 6_000
const SETTLE_MS = 3_000
/** What is asserted of the speed beside slow senders against that alone; they cost this machine's two cores too. */
const LEAST_RATIO = 0.5

/** A provider that costs next to nothing: it reads what it is sent and hears the same in everything. */
async function startUpstream(t: Test): Promise<string> {
  const server = createServer((request, response) => {
    request.resume().once('end', () => response.end('{"text":"ok"}'))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`
}

/** Megabytes per second that are answered with 200; every other answer is a failure of the test. */
async function speedOf(t: Test, senders: Senders, windowMs: number): Promise<number> {
  await sleep(SETTLE_MS)
  const settling = await senders.counts()
  const startedMs = performance.now()
  await sleep(windowMs)
  const { bytes, answers } = await senders.counts()
  const seconds = (performance.now() - startedMs) / 1_000
  t.same(
    [settling, { answers }].flatMap((sent) => Object.keys(sent.answers)),
    ['200', '200'],
    'none is refused',
  )
  return bytes / 1e6 / seconds
}

/** @param refusedMax how many slow senders are too many for this store */
async function slowSenders(t: Test, bucket: Bucket | null, refusedMax: number): Promise<void> {
  const upstreamUrl = await startUpstream(t)
  const env = { ...bucket?.env, LARKWAY_MEMORY_MIB: String(MEMORY_MIB) }
  const gateway = await startDemoProcess(t, { upstreamUrl, env })
  const idleMiB = residentMiB(gateway.pid)
  const memory = new MemoryWatch(gateway.pid)
  const common = { port: gateway.port, authorization: gateway.authorization.authorization }
  const fast = startSenders(t, { ...common, clients: 16, audioBytes: 5_000_000, bytesPerSecond: null })

  const alone: number[] = []
  const beside: number[] = []
  const ratios: number[] = []
  const isOver = () => Math.max(0, ...ratios) >= LEAST_RATIO
  while (!isOver() && ratios.length < ROUNDS_MAX) {
    alone.push(await speedOf(t, fast, ALONE_MS))
    const order = { clients: SLOW_CLIENTS, audioBytes: 1_000_000, bytesPerSecond: 20_000 }
    const slow = startSenders(t, { ...common, ...order })
    beside.push(await speedOf(t, fast, BESIDE_MS))
    const { '503 OVERLOADED': refused = 0, ...others } = (await slow.counts()).answers
    t.same(others, {}, 'no slow sender fails')
    t.ok(refused <= refusedMax, `${refused} of ${SLOW_CLIENTS} slow senders are too many for the store`)
    await slow.stop()
    ratios.push(beside.at(-1)! / alone.at(-1)!)
  }
  await fast.stop()
  const peakMiB = memory.stop()
  t.ok(Math.max(...ratios) >= LEAST_RATIO, 'fast senders keep their speed')
  const boundMiB = 120 + 1.1 * MEMORY_MIB + UPLOADS_MAX
  t.ok(peakMiB < boundMiB, `memory stays under ${Math.round(boundMiB)} MiB`)
  const list = (values: readonly number[], digits = 0) =>
    values.map((value) => value.toFixed(digits)).join(', ')
  t.comment(
    `fast senders: ${list(alone)} MB/s alone, ${list(beside)} MB/s beside slow ones, ratios ${list(ratios, 2)}; ` +
      `resident memory: ${list([idleMiB, peakMiB])} MiB when idle and at its peak`,
  )
  await assertStopsClean(t, gateway)
  t.same((await bucket?.contents()) ?? [], [], 'nothing is left in the store')
}

t.test(`${SLOW_CLIENTS} slow senders beside 16 fast ones, folder store`, { timeout: 120_000 }, (t) =>
  slowSenders(t, null, 0),
)
const skip = withoutServers
t.test(`${SLOW_CLIENTS} slow senders beside 16 fast ones, S3`, { skip, timeout: 120_000 }, async (t) => {
  const bucket = await openBucket(t, await startS3(t))
  // Twice the excess: those who were refused may be back by the end.
  await slowSenders(t, bucket, 2 * (SLOW_CLIENTS - UPLOADS_MAX))
})
