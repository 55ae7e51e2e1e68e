import t, { type Test } from 'tap'
import { assertStopsClean } from '../support/gateway.ts'
import { startNginx } from '../support/nginx-server.ts'
import { RawClient } from '../support/raw-client.ts'
import { withoutServers } from '../support/servers.ts'
import { startEdgeProduct } from './edge-product.ts'
import { chunkExtensions, type EdgeRequest, edgeRequests, openaiRequests, textOf } from './edge-requests.ts'

/** Then every request is cut at every byte. */
const LONG = process.env.LARKWAY_TEST_LONG === '1'
const CUTS = 12
const AT_ONCE = 60

t.setTimeout(LONG ? 1_800_000 : 120_000)

/** What differs between two answers to one request. */
const VARYING: readonly (readonly [RegExp, string])[] = [
  [/(req|tj|qj)_[0-9a-z]{26,32}/g, '$1_'],
  [/"milliseconds":\d+/g, '"milliseconds":0'],
  [/"(?:created|created_at|completed_at)":[^,}]+/g, '"created":0'],
  [/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'then'],
]
const VARYING_HEADERS = /^(?:x-ratelimit-|x-lk-request-id$|date$)/

/** An answer as text, without what differs between any two. */
async function answerTo(port: number, pieces: readonly string[], head: boolean): Promise<string> {
  const client = await RawClient.connect(port)
  try {
    await client.send(...pieces)
    const answer = await client.response({ head, timeoutMs: 20_000 })
    if (answer === null) return client.closed ? 'closed without an answer' : 'no answer'
    const headers = Object.entries(answer.headers).filter(([name]) => !VARYING_HEADERS.test(name))
    const text = `${answer.status} ${JSON.stringify(headers)} ${answer.body.toString('latin1')}`
    return VARYING.reduce((changed, [pattern, by]) => changed.replace(pattern, by), text)
  } finally {
    client.destroy()
  }
}

function cutsOf(length: number): number[] {
  const every = Array.from({ length: length - 1 }, (_, index) => index + 1)
  if (LONG || every.length <= CUTS) return every
  // A random one out of each of equal stretches.
  const stretch = every.length / CUTS
  return Array.from({ length: CUTS }, (_, index) => every[Math.floor((index + Math.random()) * stretch)] ?? 1)
}

/** @returns how many answers were compared */
async function assertSplits(t: Test, port: number, requests: readonly EdgeRequest[]): Promise<number> {
  const jobs: { request: EdgeRequest; whole: string; cut: number }[] = []
  for (const request of requests) {
    const whole = await answerTo(port, [textOf(request)], request.head)
    t.match(whole, /^[24]\d\d /, `${request.name} is answered`)
    jobs.push(...cutsOf(textOf(request).length).map((cut) => ({ request, whole, cut })))
  }
  const wrong: object[] = []
  const left = [...jobs]
  const work = async () => {
    for (let job = left.pop(); job !== undefined; job = left.pop()) {
      const { request, whole, cut } = job
      const text = textOf(request)
      const split = await answerTo(port, [text.slice(0, cut), text.slice(cut)], request.head)
      if (split !== whole) wrong.push({ request: request.name, cut, whole, split })
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work))
  t.same(wrong.slice(0, 5), [], `${jobs.length} cuts of ${requests.length} requests change nothing`)
  return jobs.length
}

t.test('a valid request is the same in two segments, wherever it is cut', async (t) => {
  const product = await startEdgeProduct(t)
  const requests = [edgeRequests, openaiRequests].flatMap((make) => make(product.authorization))
  await assertSplits(t, product.port, requests)
  await assertStopsClean(t, product)
})

// The native parser stumbles over letters in what follows the size of a chunk.
t.test('behind nginx so is one with chunk extensions', { skip: withoutServers }, async (t) => {
  const product = await startEdgeProduct(t)
  const nginx = await startNginx(t, [product.port, product.port, product.port])
  await assertSplits(t, nginx.port, chunkExtensions(product.authorization))
  await assertStopsClean(t, product)
})
