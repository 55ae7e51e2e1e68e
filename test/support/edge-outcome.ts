import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { GatewayError } from '../../src/contracts/errors.ts'
import type { Exchange } from '../../src/gateway/edge/exchange.ts'
import { type Edge, startEdge } from './edge.ts'
import { RawClient } from './raw-client.ts'

/** How long a connection is watched of which neither an answer nor a close is expected. */
const QUIET_MS = 150
/** How long one is watched of which either is. */
const PATIENCE_MS = 8_000
/** Connections at a time of one request. */
const AT_ONCE = 60
/** Asked for behind an answer, to see whether its connection still serves. */
const PROBE = '/after'
/** In the middle of a long run of letters every cut is alike: of these only some are tried. */
const RUN = /a{200,}/
const RUN_STEP = 211

export interface CountedEdge extends Edge {
  /** `path bytes` of every request whose body was read to its end, the probes left out. */
  readonly handled: string[]
}

/** The real edge with routes that count what they complete. */
export async function countedEdge(t: Test): Promise<CountedEdge> {
  const handled: string[] = []
  const handle = (exchange: Exchange) => {
    if ((exchange.contentLength ?? 0) > 1_000)
      return exchange.replyError(new GatewayError('REQUEST_TOO_LARGE'))
    exchange.body.consume({
      onChunk(_, last) {
        if (!last) return
        const { path, receivedBytes } = exchange
        if (path !== PROBE) handled.push(`${path} ${receivedBytes}`)
        exchange.reply({ status: 200, body: JSON.stringify({ n: receivedBytes, path }) })
      },
      onError: (error) => exchange.replyError(error),
    })
  }
  const routes = ['/', '/1', '/2', '/smug', PROBE].flatMap((path) =>
    (['GET', 'POST'] as const).map((method) => ({ method, path, handle })),
  )
  // A second segment that this busy process sends late must not find its connection closed.
  const timing = { discardMs: 1_000, pauseMs: 10, lingerMs: 100 }
  return { ...(await startEdge(t, routes, { timing })), handled }
}

/**
 * What a client sees of a request, in the words of the vectors.
 *
 * @param expected says no more than how long to wait, and for what
 */
export async function outcomeOf(port: number, pieces: readonly string[], expected: string): Promise<string> {
  const client = await RawClient.connect(port)
  try {
    await client.send(...pieces)
    const words: string[] = []
    let isFramed = false
    while (words.length < expected.split(', ').length) {
      const answer = await client.response({ timeoutMs: expected === 'silent' ? QUIET_MS : PATIENCE_MS })
      if (answer === null) break
      const { status, headers, body } = answer
      words.push(status === 200 ? `200 ${JSON.parse(String(body)).n}` : String(status))
      // The native parser's own refusals have no length: they end with their connection.
      isFramed = headers['content-length'] !== undefined
      if (!isFramed) break
    }
    if (words.length === 0) return client.closed ? 'cut' : 'silent'
    let closed = true
    if (isFramed && /200 \d+$|open$/.test(expected)) {
      await client.send(`GET ${PROBE} HTTP/1.1\r\nHost: a\r\n\r\n`)
      const probe = await client.response({ timeoutMs: PATIENCE_MS })
      closed = probe === null
      if (probe !== null && JSON.parse(String(probe.body)).path !== PROBE) words.push(String(probe.status))
    } else {
      closed = await client.closes(PATIENCE_MS)
      const others = (await client.rest(0)).matchAll(/HTTP\/1\.1 (\d{3})/g)
      words.push(...Array.from(others, ([, status = '']) => status))
    }
    if (words.at(-1)?.startsWith('200') === true) return words.join(', ') + (closed ? ' close' : '')
    return words.join(', ') + (closed ? '' : ' open')
  } finally {
    client.destroy()
  }
}

/**
 * What clients see of one request, sent whole and in two segments.
 *
 * @param expected as for `outcomeOf`
 * @returns        by where it was cut; 0 is not at all
 */
export async function outcomesOf(
  port: number,
  text: string,
  cuts: readonly number[],
  expected: string,
): Promise<ReadonlyMap<number, string>> {
  const seen = new Map<number, string>()
  const left = [...cuts]
  const work = async () => {
    for (let cut = left.pop(); cut !== undefined; cut = left.pop()) {
      seen.set(cut, await outcomeOf(port, [text.slice(0, cut), text.slice(cut)], expected))
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work))
  return seen
}

/** After which a connection that made no request must be closed. */
const UNUSED_MS_MAX = 13_000

/** The head of a request, cut short anywhere. */
export function unfinishedHeads(): string[] {
  const whole = 'GET / HTTP/1.1\r\nHost: a\r\nX-Long: abcdefghijklmnopqrstuvwxyz\r\n\r\n'
  return Array.from({ length: whole.length - 1 }, (_, cut) => whole.slice(0, cut))
}

/**
 * Connections that bring these texts, every other one with its last bytes one a second.
 *
 * @returns the texts of those that are still open after 13 s
 */
export async function leftOpen(port: number, texts: readonly string[]): Promise<string[]> {
  const connections = texts.map(async (text, index) => {
    const client = await RawClient.connect(port)
    const deadlineMs = performance.now() + UNUSED_MS_MAX
    const slow = index % 2 === 0 ? 0 : Math.max(0, text.length - 20)
    await client.send(text.slice(0, text.length - slow))
    for (let at = text.length - slow; at < text.length && !client.closed; at += 1) {
      await sleep(1_000)
      await client.send(text.slice(at, at + 1))
    }
    const isClosed = await client.closes(deadlineMs - performance.now())
    client.destroy()
    return isClosed ? [] : [text]
  })
  return (await Promise.all(connections)).flat()
}

/** Every place at which a request can be cut in two, and 0 for not at all; of a long run of one letter, some. */
export function cutsOf(text: string, every: boolean): number[] {
  const run = every ? null : RUN.exec(text)
  const cuts: number[] = []
  for (let cut = 0; cut < text.length; cut += 1) {
    const inside = run !== null && cut > run.index + 2 && cut < run.index + run[0].length - 2
    if (!inside || cut % RUN_STEP === 0) cuts.push(cut)
  }
  return cuts
}
