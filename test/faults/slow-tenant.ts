import { once } from 'node:events'
import { Agent, createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { startFleet } from '../support/fleet.ts'
import { assertStopsClean } from '../support/gateway.ts'
import { MemoryWatch } from '../support/process-load.ts'
import { filledWav } from '../support/wav.ts'
import { startClients } from './senders.ts'
import type { SlowKind } from './slow-kinds.ts'
import type { SlowCounts, SlowOrder } from './slow-tenant-process.ts'

const PROGRAM = new URL('./slow-tenant-process.ts', import.meta.url)
const MEMORY_MIB = 64
/**
 * Medians over so many pairs of rounds, alone and beside: one where it is clear, and more while they are over the
 * bound, as others work here too.
 */
const ROUNDS = 3
const ROUNDS_MAX = 6
/**
 * How much later the slowest hundredth of the other tenant's answers may be. The aim is 1.5, and on quiet cores it is
 * met; shared ones are noisy. Before memory was shared by workspace it was 20, and calls were refused.
 */
const MOST_RATIO = 3
/** So far within the bound that the first pair of rounds is enough. */
const CLEAR_RATIO = 2
const CLIENTS = 3
/** A stream begins with as much as was asked for, and goes on as a model does. */
const EVENT_MS = 500

export interface SlowTenantOptions {
  readonly kinds: readonly SlowKind[]
  readonly connections: number
  readonly store: 'folder' | 'S3'
  /** Ms for which the slow ones get ready, and for which the other tenant is measured. */
  readonly settleMs?: number
  readonly windowMs?: number
  /** Compares with as many connections that hold nothing: what they cost this machine's cores is not asked about. */
  readonly besideIdle?: boolean
}

/** Answers in OpenAI's format: chats shortly, or at length where they ask for much; streams do not end soon. */
async function startUpstream(t: Test): Promise<string> {
  const small = JSON.stringify(answerOf('ok'))
  const brief = eventOf('word '.repeat(20))
  const server = createServer(async (asked, response) => {
    let start = ''
    for await (const chunk of asked)
      if (start.length < 2_000) start += (chunk as Buffer).toString('latin1', 0, 2_000)
    if (asked.url?.endsWith('/transcriptions')) return void response.end('{"text":"ok"}')
    const bytes = Number(/"much (\d+)/.exec(start)?.[1] ?? 0)
    response.setHeader(
      'content-type',
      start.includes('"stream":true') ? 'text/event-stream' : 'application/json',
    )
    const whole = bytes > 0 ? JSON.stringify(answerOf('x'.repeat(bytes))) : small
    if (!start.includes('"stream":true')) return void response.end(whole)
    response.write(eventOf('x'.repeat(bytes)))
    for (let i = 0; i < 1_000 && !response.destroyed; i += 1) {
      await sleep(EVENT_MS)
      response.write(brief)
    }
    response.end('data: [DONE]\n\n')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`
}

function eventOf(content: string): string {
  return `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content } }] })}\n\n`
}

function answerOf(content: string): object {
  return {
    choices: [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content } }],
    usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
  }
}

interface Window {
  readonly p50Ms: number
  readonly p99Ms: number
  readonly calls: number
  /** By what they were instead of 200. */
  readonly failures: Readonly<Record<string, number>>
}

/** The other tenant: clients that call one after the other, everything that a memory without room refuses. */
function callersOf(port: number, authorization: string) {
  const agent = new Agent({ keepAlive: true, maxSockets: CLIENTS })
  const chat = (length: number) =>
    Buffer.from(JSON.stringify({ messages: [{ role: 'user', content: 'x'.repeat(length) }] }))
  const audio = filledWav(1_000_000, 1)
  const calls = [
    { path: '/v1/chat', type: 'application/json', body: chat(1_000_000), chunked: false },
    { path: '/v1/chat', type: 'application/json', body: chat(1_000), chunked: false },
    { path: '/v1/transcription', type: 'audio/wav', body: audio, chunked: false },
    { path: '/v1/transcription', type: 'audio/wav', body: filledWav(1_500_000, 1), chunked: true },
  ]
  const call = (index: number): Promise<string> =>
    new Promise((resolve) => {
      const { path, type, body, chunked } = calls[index % calls.length]!
      const framing = chunked ? { 'transfer-encoding': 'chunked' } : { 'content-length': body.length }
      const headers = { authorization, 'content-type': type, ...framing }
      const sent = request({ host: '127.0.0.1', port, path, method: 'POST', agent, headers }, (response) => {
        let text = ''
        response.on('data', (chunk: Buffer) => {
          text += chunk.toString()
        })
        response.on('close', () =>
          resolve(
            response.statusCode === 200 && response.complete
              ? '200'
              : `${response.statusCode} ${text.slice(0, 200)}`,
          ),
        )
      })
      sent.on('error', (error: NodeJS.ErrnoException) => resolve(String(error.code)))
      sent.end(body)
    })
  return {
    close: () => agent.destroy(),
    async measure(windowMs: number): Promise<Window> {
      const times: number[] = []
      const failures: Record<string, number> = {}
      const untilMs = performance.now() + windowMs
      const client = async (first: number) => {
        for (let index = first; performance.now() < untilMs; index += 1) {
          const startedMs = performance.now()
          const outcome = await call(index)
          times.push(performance.now() - startedMs)
          if (outcome !== '200') failures[outcome] = (failures[outcome] ?? 0) + 1
        }
      }
      await Promise.all(Array.from({ length: CLIENTS }, (_, index) => client(index)))
      times.sort((a, b) => a - b)
      const at = (share: number) => times[Math.min(times.length - 1, Math.floor(times.length * share))]!
      return { p50Ms: at(0.5), p99Ms: at(0.99), calls: times.length, failures }
    },
  }
}

function medianOf(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}

/**
 * Asserts that one tenant's slow connections do not hold up, or have refused, another one: against that one alone in
 * alternating rounds of the same run, and that nothing is held afterwards. With `besideIdle` the times are compared
 * with those beside connections that send nothing but their heads.
 */
export async function assertUnhindered(t: Test, options: SlowTenantOptions): Promise<void> {
  const { kinds, connections, store, settleMs = 2_500, windowMs = 1_250, besideIdle = false } = options
  const upstreamUrl = await startUpstream(t)
  const workspace = (name: string) => ({ [name]: { entries: [{ provider: name, model: 'morse-1' }] } })
  const provider = (name: string) => ({
    [name]: { kind: 'sandbox', access: 'byok', workspace: name, base_url: upstreamUrl },
  })
  const fleet = await startFleet(t, {
    ...(store === 'S3' ? { s3: 'shared' } : {}),
    env: { LARKWAY_MEMORY_MIB: String(MEMORY_MIB), LARKWAY_LOG: 'warn' },
    providers: { ...provider('slow'), ...provider('other') },
    workspaces: { ...workspace('slow'), ...workspace('other') },
    config: { rate_limit: { requests_per_minute: 1_000_000, burst: 100_000 } },
  })
  const gateway = fleet.node()
  const memory = new MemoryWatch(gateway.pid)
  const callers = callersOf(gateway.port, fleet.authorizationOf('other'))
  t.teardown(() => callers.close())
  const alone: Window[] = []
  const beside: Window[] = []
  const ratio = () => medianOf(beside.map(({ p99Ms }) => p99Ms)) / medianOf(alone.map(({ p99Ms }) => p99Ms))
  const mostRounds = () => (ratio() <= CLEAR_RATIO ? 1 : ratio() <= MOST_RATIO ? ROUNDS : ROUNDS_MAX)
  await callers.measure(windowMs)
  while (alone.length === 0 || alone.length < mostRounds()) {
    const order = { port: gateway.port, authorization: fleet.authorizationOf('slow'), kinds, connections }
    const idle = besideIdle
      ? startClients<SlowCounts>(t, PROGRAM, { ...order, idle: true } satisfies SlowOrder)
      : null
    if (idle !== null) await sleep(settleMs)
    alone.push(await callers.measure(windowMs))
    await idle?.stop()
    const slow = startClients<SlowCounts>(t, PROGRAM, { ...order, idle: false } satisfies SlowOrder)
    await sleep(settleMs)
    beside.push(await callers.measure(windowMs))
    const counts = await slow.counts()
    t.comment(`slow connections: ${counts.open} open, answered ${JSON.stringify(counts.answers)}`)
    await slow.stop()
    await sleep(300)
  }
  const peakMiB = memory.stop()
  const than = besideIdle ? 'beside idle ones' : 'alone'
  const list = (windows: readonly Window[]) =>
    windows.map(({ p50Ms, p99Ms, calls }) => `${p50Ms.toFixed(1)}/${p99Ms.toFixed(1)} (${calls})`).join(', ')
  t.comment(
    `${connections} slow, ${kinds.join(' + ')}, ${store}: p50/p99 in ms (calls) ` +
      `${than} ${list(alone)}; ` +
      `beside ${list(beside)}; ratio ${ratio().toFixed(2)}; peak ${peakMiB.toFixed(0)} MiB`,
  )
  const failures = beside.map((window) => window.failures)
  t.same(
    failures,
    failures.map(() => ({})),
    'none of the other tenant is refused',
  )
  t.ok(ratio() <= MOST_RATIO, `p99 is at most ${MOST_RATIO} times what it is ${than}: ${ratio().toFixed(2)}`)
  await assertStopsClean(t, gateway)
  t.same((await fleet.bucket?.contents()) ?? [], [], 'nothing is left in the store')
}
