import t, { type Test } from 'tap'
import { GatewayError } from '../../src/errors.ts'
import type { Exchange } from '../../src/inbound/exchange.ts'
import type { EdgeRoute } from '../../src/inbound/server.ts'
import { startEdge } from '../support/edge.ts'
import { RawClient } from '../support/raw-client.ts'
import { bytesOf, VECTORS } from './framing-vectors.ts'

/** How long a connection is watched that is expected to be left open. */
const QUIET_MS = 100
/** How long one is watched of which an answer or a close is expected. */
const PATIENCE_MS = 3_000

t.setTimeout(120_000)

function routesInto(handled: string[]): EdgeRoute[] {
  const handle = (exchange: Exchange) => {
    if ((exchange.contentLength ?? 0) > 1_000)
      return exchange.replyError(new GatewayError('REQUEST_TOO_LARGE'))
    exchange.body.consume({
      onChunk(_, last) {
        if (!last) return
        handled.push(`${exchange.path} ${exchange.receivedBytes}`)
        exchange.reply({ status: 200, body: JSON.stringify({ n: exchange.receivedBytes }) })
      },
      onError: (error) => exchange.replyError(error),
    })
  }
  return ['/', '/1', '/2', '/smug'].flatMap((path) => [
    { method: 'GET', path, handle },
    { method: 'POST', path, handle },
  ])
}

/** What a client sees, in the words of the vectors; `expected` only says how long to wait. */
async function outcomeOf(port: number, pieces: string[], expected: string): Promise<string> {
  const client = await RawClient.connect(port)
  await client.send(...pieces)
  if (expected !== 'silent') await client.receives(PATIENCE_MS)
  const seen = await client.rest(/^200 \d+$|open$|silent/.test(expected) ? QUIET_MS : PATIENCE_MS)
  const { closed } = client
  client.destroy()
  const statuses = [...seen.matchAll(/HTTP\/1\.1 (\d{3})/g)]
    .map((match) => match[1]!)
    .filter((s) => s !== '100')
  if (statuses.length === 0) return closed ? 'cut' : 'silent'
  const bodies = [...seen.matchAll(/\{"n":(\d+)\}/g)].map((match) => match[1])
  const words = statuses.map((status) => (status === '200' ? `200 ${bodies.shift()}` : status))
  if (statuses.at(-1) === '200') return words.join(', ') + (closed ? ' close' : '')
  return words.join(', ') + (closed ? '' : ' open')
}

/** Every cut that matters: evenly over the request, and around the end of its head. */
function cutsOf(length: number, headEnd: number): number[] {
  const even = Array.from({ length: 5 }, (_, index) => Math.round(((index + 1) * length) / 6))
  const cuts = [...even, headEnd - 1, headEnd, headEnd + 1, length - 1]
  return [...new Set(cuts)].filter((cut) => cut > 0 && cut < length)
}

async function tryVector(t: Test, [id, raw, expected]: (typeof VECTORS)[number]): Promise<void> {
  const handled: string[] = []
  const edge = await startEdge(t, routesInto(handled), {
    timing: { discardMs: 40, pauseMs: 10, lingerMs: 100 },
  })
  const bytes = bytesOf(raw)
  t.equal(await outcomeOf(edge.port, [bytes], expected), expected, id)
  for (const cut of cutsOf(bytes.length, bytes.indexOf('\r\n\r\n') + 4)) {
    const before = handled.length
    const split = await outcomeOf(edge.port, [bytes.slice(0, cut), bytes.slice(cut)], expected)
    t.ok(handled.length - before <= 1, `${id} cut at ${cut} runs one handler at most`)
    // Sloppy chunk sizes are read differently across segments: one request and a closed connection either
    // way.
    if (expected.startsWith('200') && !id.startsWith('ck-')) t.equal(split, expected, `${id} cut at ${cut}`)
    if (/^[45]/.test(expected)) t.notMatch(split, '200', `${id} cut at ${cut} is refused`)
  }
  const hidden = handled.filter((run) => run.startsWith('/smug'))
  t.same(hidden, [], `${id} smuggles nothing`)
  edge.server.close()
}

t.test('each vector has its outcome, and no hidden request runs, whole or in two segments', async (t) => {
  const remaining = [...VECTORS]
  const work = async () => {
    for (let vector = remaining.shift(); vector !== undefined; vector = remaining.shift())
      await tryVector(t, vector)
  }
  await Promise.all(Array.from({ length: 12 }, work))
})
