import { randomInt } from 'node:crypto'
import type { Test } from 'tap'
import { mutantOf } from './edge-mutator.ts'
import { type EdgeProduct, startEdgeProduct } from './edge-product.ts'
import { edgeRequests, lastingRequests, openaiRequests } from './edge-requests.ts'
import { EdgeSender, isSplit } from './edge-sender.ts'
import { residentMiB } from './resident-memory.ts'
import { assertStopsClean } from './stopped.ts'

const SEED = Number(process.env.FUZZ_SEED ?? randomInt(2 ** 31))
const BATCH_MAX = 50_000
const AT_ONCE = 300
/** With the memory that requests may hold, and what a long run leaves to be collected. */
const RSS_MAX_MIB = 700

/** Sends a batch of mutants, many at a time, and counts what came back. */
async function sendBatch(
  t: Test,
  product: EdgeProduct,
  [from, end]: readonly [number, number],
  counts: Map<string, number>,
): Promise<void> {
  const corpus = [edgeRequests, lastingRequests, openaiRequests].flatMap((make) =>
    make(product.authorization),
  )
  const latency = { medianMs: 50 }
  let next = from
  const work = async () => {
    const sender = new EdgeSender(product.port, latency)
    while (next < end) {
      const index = next++
      const mutant = mutantOf(SEED, index, corpus)
      const { statuses, text } = await sender.send(mutant)
      for (const status of statuses.length === 0 ? ['none'] : statuses) {
        counts.set(status, (counts.get(status) ?? 0) + 1)
      }
      if (isSplit(text)) t.fail(`mutant ${index} split its answer`, { pieces: mutant.pieces, text })
      if (statuses.includes('500')) t.fail(`mutant ${index} is 500`, { pieces: mutant.pieces, text })
    }
    sender.close()
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work))
}

/** The same process is there, it is well, and what is right is answered rightly. */
async function assertSound(t: Test, product: EdgeProduct): Promise<void> {
  process.kill(product.pid, 0)
  const health = await fetch(`${product.url}/healthz`)
  t.equal(health.status, 200, 'it is alive')
  const chat = await fetch(`${product.url}/v1/chat`, {
    method: 'POST',
    headers: { authorization: product.authorization, 'content-type': 'application/json' },
    body: JSON.stringify({ messages: [{ role: 'user', content: 'sos' }] }),
  })
  t.match(await chat.json(), { content: '... --- ...' }, 'a right request has its right answer')
  const lines = (product.log as Record<string, unknown>[]).splice(0)
  const broken = lines.filter(
    ({ level, error }) => level === 'error' || level === 'fatal' || error === 'INTERNAL',
  )
  t.same(broken.slice(0, 5), [], 'nothing broke')
}

/** Sends mutated requests to a process of the product, in two batches or more, and proves it sound after each. */
export async function fuzzEdge(t: Test, requests: number): Promise<void> {
  const product = await startEdgeProduct(t)
  const counts = new Map<string, number>()
  const startedMs = performance.now()
  let peakMiB = 0
  const batch = Math.min(BATCH_MAX, requests / 2)
  for (let sent = 0; sent < requests; sent += batch) {
    await sendBatch(t, product, [sent, sent + batch], counts)
    await assertSound(t, product)
    peakMiB = Math.max(peakMiB, residentMiB(product.pid))
    t.comment(`${sent + batch} of seed ${SEED}, ${Math.round(peakMiB)} MiB`)
  }
  const seconds = (performance.now() - startedMs) / 1_000
  t.ok(peakMiB < RSS_MAX_MIB, `memory stays bounded`)
  t.comment(
    `seed ${SEED}: ${requests} requests in ${Math.round(seconds)} s, ${Math.round(peakMiB)} MiB; ` +
      JSON.stringify(Object.fromEntries([...counts].sort())),
  )
  await assertStopsClean(t, product)
}
