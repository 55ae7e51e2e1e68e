import { randomInt } from 'node:crypto'
import { connect, type Socket } from 'node:net'
import type { Test } from 'tap'
import { assertStopsClean } from '../support/gateway.ts'
import { residentMiB } from '../support/process-load.ts'
import { type Mutant, mutantOf, PLANTED_HEADER } from './edge-mutator.ts'
import { type EdgeProduct, startEdgeProduct } from './edge-product.ts'
import { edgeRequests, lastingRequests, openaiRequests } from './edge-requests.ts'

/** Longest part of an answer that is looked at, characters. */
const LOOKED_AT = 65_536
/** How many times the usual an answer may take. */
const LATENCIES = 3
/** By which the median follows each answer, and each that never comes: few that are slow by nature do not move it. */
const STEP_MS = 0.2
const STATUS_LINE = /HTTP\/1\.1 (\d{3}) /g

/** What came back for one mutant. */
interface Outcome {
  /** Status of every answer, in order; empty when there was none. */
  readonly statuses: readonly string[]
  readonly text: string
}

/** How long answers take at present, ms: what all senders of a test have in common. */
interface Latency {
  medianMs: number
}

/** One client, which opens a connection anew whenever the last one is of no more use. */
class EdgeSender {
  readonly #port: number
  readonly #latency: Latency
  #socket: Socket | null = null
  #text = ''
  #wake: () => void = () => {}

  /** @param latency grown and shrunk by every answer; patience is what a client has beyond some of it */
  constructor(port: number, latency: Latency) {
    this.#port = port
    this.#latency = latency
  }

  async send({ pieces, manner, patienceMs }: Mutant): Promise<Outcome> {
    this.#socket ??= this.#open()
    const socket = this.#socket
    this.#text = ''
    for (const [index, piece] of pieces.entries()) {
      if (index > 0) await new Promise((resolve) => setImmediate(resolve))
      socket.write(piece, 'latin1')
    }
    if (manner === 'leaves') {
      // The bytes are with the kernel in the next turn.
      await new Promise((resolve) => setImmediate(resolve))
      this.close()
    } else {
      if (manner === 'half') socket.end()
      await this.#answered(socket, patienceMs)
    }
    const text = this.#text
    // An answer that is not whole may be gone on with: the next request would be read into a body.
    if (manner !== 'stays' || !isWhole(text)) this.close()
    return { statuses: Array.from(text.matchAll(STATUS_LINE), ([, status = '']) => status), text }
  }

  close(): void {
    this.#socket?.destroy()
    this.#socket = null
  }

  #open(): Socket {
    const socket = connect({ port: this.#port, host: '127.0.0.1', allowHalfOpen: true })
    socket.setNoDelay(true)
    const gone = () => {
      if (this.#socket === socket) this.close()
      this.#wake()
    }
    socket.on('data', (chunk) => {
      if (this.#socket !== socket) return
      if (this.#text.length < LOOKED_AT) this.#text += chunk.toString('latin1')
      this.#wake()
    })
    socket.on('end', gone)
    socket.on('error', gone)
    socket.on('close', gone)
    return socket
  }

  /** Resolves with a whole answer, with the end of the connection, or when patience is over. */
  #answered(socket: Socket, patienceMs: number): Promise<void> {
    return new Promise((resolve) => {
      const startedMs = performance.now()
      const latency = this.#latency
      const timer = setTimeout(
        () => {
          latency.medianMs += STEP_MS
          resolve()
        },
        patienceMs + LATENCIES * latency.medianMs,
      )
      this.#wake = () => {
        if (!socket.destroyed && !isWhole(this.#text)) return
        clearTimeout(timer)
        const tookMs = performance.now() - startedMs
        if (this.#text !== '') latency.medianMs += tookMs > latency.medianMs ? STEP_MS : -STEP_MS
        resolve()
      }
      this.#wake()
    })
  }
}

/** Whether an answer was split: what a request brought stands as a header of its own. */
function isSplit(text: string): boolean {
  return text.includes(`\r\n${PLANTED_HEADER}:`)
}

/** Whether the last answer of what was received has come to its end. */
function isWhole(text: string): boolean {
  const start = text.lastIndexOf('HTTP/1.1 ')
  if (start < 0 || text.startsWith('HTTP/1.1 1', start)) return false
  const headEnd = text.indexOf('\r\n\r\n', start)
  if (headEnd < 0) return false
  const length = /\r\ncontent-length: (\d+)\r\n/i.exec(text.slice(start, headEnd + 2))?.[1]
  return length === undefined ? text.endsWith('\r\n0\r\n\r\n') : text.length >= headEnd + 4 + Number(length)
}

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
