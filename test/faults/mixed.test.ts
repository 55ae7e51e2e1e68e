import { randomInt } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import { startSandboxThread } from '../../src/sandbox/thread.ts'
import { Dice } from '../support/dice.ts'
import { assertStopsClean } from '../support/gateway.ts'
import { type Larkway, startLarkway } from '../support/larkway.ts'
import { RawClient } from '../support/raw-client.ts'
import { waitUntil } from '../support/wait-until.ts'
import { errorOf, KINDS, type MixedCall, type MixedKind, mixedCall } from './mixed-calls.ts'

const REQUESTS = process.env.LARKWAY_TEST_LONG === '1' ? 1_500 : 800
const AT_ONCE = 24
const ROUTES = 49
/** Never answers, so that some call meets its deadline whatever was drawn. */
const HANGING_ROUTE = 47
const SOUND_ROUTE = 48
const SEED = Number(process.env.MIXED_SEED ?? randomInt(2 ** 32))
/** Longer than any deadline, with what fetching a film may take behind it. */
const ANSWER_MS = 30_000
/** What a sound provider may come to on a machine that is too busy. */
const LATE: ReadonlySet<string> = new Set(['UPSTREAM_TIMEOUT', 'UPSTREAM_OUTCOME_UNKNOWN'])
const RSS_MAX_MIB = 600
/** Longest wait until the connections to the provider are given up. */
const LEFT_MAX_MS = 30_000
/** Threads, modules and listeners that are there only once they are needed. */
const FILES_MORE_MAX = 12

/** How often of 100 calls. */
const SHARES: Readonly<Record<MixedKind, number>> = {
  chat: 22,
  'chat stream': 20,
  embeddings: 13,
  image: 7,
  speech: 11,
  'speech audio': 12,
  transcription: 7,
  'transcription 3 MB': 2,
  'transcription stream': 4,
  video: 2,
}
const DECK = KINDS.flatMap((kind) => Array.from({ length: SHARES[kind] }, () => kind))

/** What entries are ordered to do. Breakers open soon, so there are many routes of few calls. */
const FAULTS: readonly ((dice: Dice) => object)[] = [
  () => ({ hang: true }),
  () => ({ cut: true, piece_delay_ms: 5 }),
  (dice) => ({ delay_ms: 20 + dice.below(200) }),
  (dice) => ({ status: dice.one([401, 404, 408, 500, 503]) }),
  (dice) => ({ fail_times: 1 + dice.below(8), key: `k${dice.below(2 ** 31)}` }),
  () => ({ status: 400 }),
  () => ({ cut: true }),
  (dice) => ({ piece_delay_ms: 1 + dice.below(10) }),
  () => ({ status: 429, retry_after: 1 }),
  () => ({ status: 500, early: true }),
  () => ({ read_bytes_per_second: 6_000_000 }),
  (dice) => ({ fail_times: 1 + dice.below(8), key: `k${dice.below(2 ** 31)}`, cut: true }),
]

interface Rig {
  readonly gateway: Larkway
  readonly keys: readonly string[]
  readonly upstreamPort: number
}

async function start(t: Test, dice: Dice): Promise<Rig> {
  const sandbox = await startSandboxThread({ keepAliveMs: 2_000 }, (error) => t.fail(error.message))
  t.teardown(() => sandbox.close())
  const names = Array.from({ length: ROUTES }, (_, index) => `r${index}`)
  const keys = names.map(() => makeKey())
  const of = <Value>(make: (name: string, index: number) => Value) =>
    Object.fromEntries(names.map((name, index) => [name, make(name, index)]))
  const entry = (options: object) => ({ provider: 'sandbox', model: 'morse-1', options })
  const route = (index: number) => {
    if (index === SOUND_ROUTE) return [entry({})]
    if (index === HANGING_ROUTE) return [entry({ hang: true })]
    const first = FAULTS[index % FAULTS.length]
    const faults = dice.chance(0.5) ? [first, dice.one(FAULTS)] : [first]
    const last = dice.chance(0.6) ? [entry({})] : []
    return [...faults.map((draw) => entry(draw?.(dice) ?? {})), ...last]
  }
  const gateway = await startLarkway(t, {
    config: {
      deadline_seconds: 3,
      video_deadline_seconds: 6,
      rate_limit: { requests_per_minute: 1_000_000, burst: 100_000 },
      providers: { sandbox: { kind: 'sandbox', access: 'byok', workspace: 'acme', base_url: sandbox.url } },
      routes: of((_, index) => ({ workspace: 'acme', entries: route(index) })),
      workspaces: {
        acme: {
          apps: of((name) => ({ route: name })),
          keys: names.map((app, index) => ({ id: `key_${app}`, app, sha256: hashKey(keys[index] ?? '') })),
        },
      },
    },
  })
  return { gateway, keys, upstreamPort: sandbox.port }
}

/** How a client behaves: it stays, is slow to read, or leaves. */
type Manner =
  | { readonly kind: 'stays' | 'slow' }
  | { readonly kind: 'leaves'; readonly sends: number; readonly waitMs: number; readonly resets: boolean }

function drawManner(dice: Dice): Manner {
  const chosen = dice.roll()
  if (chosen < 0.7) return { kind: 'stays' }
  if (chosen < 0.8) return { kind: 'slow' }
  const sends = dice.chance(0.3) ? dice.roll() : 1
  return { kind: 'leaves', sends, waitMs: dice.below(400), resets: dice.chance(0.5) }
}

/** What came of the requests. */
class Ledger {
  readonly answers = new Map<string, number>()
  readonly faults: string[] = []
  /** Error code by request id, of what was answered; null for a whole answer, undefined where the client left. */
  readonly told = new Map<string, string | null | undefined>()

  count(name: string): void {
    this.answers.set(name, (this.answers.get(name) ?? 0) + 1)
  }
}

function bytesOf(call: MixedCall, key: string, requestId: string): Buffer {
  const fields = {
    host: 'a',
    authorization: `Bearer ${key}`,
    'x-lk-request-id': requestId,
    'content-length': String(call.body.length),
    ...call.headers,
  }
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`)
  return Buffer.concat([Buffer.from(`POST ${call.path} HTTP/1.1\r\n${lines.join('')}\r\n`), call.body])
}

/** One client after the other on connections that are used again where they can be. */
class Clients {
  readonly #rig: Rig
  readonly #ledger: Ledger
  #connection: RawClient | null = null

  constructor(rig: Rig, ledger: Ledger) {
    this.#rig = rig
    this.#ledger = ledger
  }

  async call(index: number): Promise<void> {
    const dice = new Dice(SEED + index)
    const kind = dice.one(DECK)
    const route = dice.below(ROUTES)
    const manner = drawManner(dice)
    const requestId = `mixed-${index}`
    const call = mixedCall(kind, index, (url) => this.#fetchResult(url))
    const bytes = bytesOf(call, this.#rig.keys[route] ?? '', requestId)
    const name = `${requestId}, a ${kind} on route ${route} by one who ${manner.kind}`
    try {
      if (manner.kind === 'leaves') {
        this.#ledger.told.set(requestId, undefined)
        return await this.#leave(bytes, manner)
      }
      const told = await this.#ask(bytes, call, kind, requestId, manner.kind === 'slow')
      this.#ledger.told.set(requestId, told)
      this.#ledger.count(`${kind}: ${told ?? 'whole'}`)
      if (route === SOUND_ROUTE && told !== null && !LATE.has(told))
        throw new Error(`${told} of a sound route`)
    } catch (error) {
      this.#ledger.faults.push(`${name}: ${error instanceof Error ? error.message : error}`)
      this.close()
    }
  }

  close(): void {
    this.#connection?.destroy()
    this.#connection = null
  }

  async #ask(bytes: Buffer, call: MixedCall, kind: MixedKind, requestId: string, slow: boolean) {
    const client = this.#connection ?? (await RawClient.connect(this.#rig.gateway.port))
    this.#connection = client
    const answering = client.response({ timeoutMs: ANSWER_MS })
    void client.send(bytes)
    if (slow) await readSlowly(client, answering)
    const answer = await answering
    if (client.closed) this.#connection = null
    if (answer === null) {
      if (kind !== 'speech audio' || !client.closed) throw new Error('no answer')
      return brokenAudio(await client.rest(0))
    }
    if (answer.headers['x-lk-request-id'] !== requestId) throw new Error('the answer of another request')
    const told = errorOf(answer, requestId)
    const fault = told === null ? await call.faultOf(answer) : null
    if (fault !== null) throw new Error(fault)
    return told
  }

  async #leave(bytes: Buffer, { sends, waitMs, resets }: Manner & { kind: 'leaves' }): Promise<void> {
    const client = await RawClient.connect(this.#rig.gateway.port)
    await Promise.race([client.send(bytes.subarray(0, Math.ceil(bytes.length * sends))), sleep(2_000)])
    await sleep(waitMs)
    if (resets) client.socket.resetAndDestroy()
    else client.destroy()
  }

  async #fetchResult(url: string): Promise<string | null> {
    const film = await fetch(this.#rig.gateway.url + url)
    const bytes = Buffer.from(await film.arrayBuffer())
    const isFilm = film.headers.get('content-type') === 'video/quicktime' && bytes.includes('ftyp')
    return film.status === 200 && isFilm ? null : `${film.status} and no film`
  }
}

/** Lets a little come at a time until the answer is there. */
async function readSlowly(client: RawClient, answering: Promise<unknown>): Promise<void> {
  let waits = true
  const ended = () => {
    waits = false
  }
  answering.then(ended, ended)
  while (waits) {
    client.socket.pause()
    await sleep(10)
    client.socket.resume()
    await sleep(1)
  }
}

/** Audio can say that it broke only by its connection, and the code is in the log alone. */
function brokenAudio(text: string): string {
  if (!/^HTTP\/1\.1 200 OK\r\n/.test(text) || !/^transfer-encoding: chunked\r$/im.test(text))
    throw new Error(`the connection was cut behind ${JSON.stringify(text.slice(0, 200))}`)
  if (text.endsWith('\r\n0\r\n\r\n')) throw new Error('an answer that broke off was ended like a whole one')
  return 'cut'
}

/** Every request that was answered has one line, which tells what the client was told. */
function lineFaults({ log }: Larkway, { told }: Ledger): string[] {
  const lines = Map.groupBy(
    log.filter(({ msg }) => msg === 'request'),
    ({ request_id }) => String(request_id),
  )
  const faults: string[] = []
  for (const [id, code] of told) {
    const [line, ...others] = lines.get(id) ?? []
    const error = line?.error ?? null
    const fits = code === 'cut' ? /^UPSTREAM_/.test(String(error)) : error === code
    if (others.length > 0) faults.push(`${id} has ${others.length + 1} lines`)
    else if (code !== undefined && !fits) faults.push(`${id} was told ${code}, the log ${error}`)
  }
  return faults
}

async function openFiles({ pid }: Larkway): Promise<number> {
  return (await readdir(`/proc/${pid}/fd`)).length
}

/** Connections to a port of the loopback that are established, seen from the side that made them. */
async function connectionsTo(port: number): Promise<number> {
  const hex = port.toString(16).toUpperCase().padStart(4, '0')
  const rows = (await readFile('/proc/net/tcp', 'utf8')).split('\n').map((row) => row.trim().split(/\s+/))
  return rows.filter(([, , remote, state]) => remote?.endsWith(`:${hex}`) && state === '01').length
}

t.test(`${REQUESTS} calls of every kind to providers that fail`, { timeout: 240_000 }, async (t) => {
  t.comment(`MIXED_SEED=${SEED}`)
  const rig = await start(t, new Dice(SEED))
  const { gateway, upstreamPort } = rig
  const ledger = new Ledger()
  const startFiles = await openFiles(gateway)
  const startMs = performance.now()

  let next = 0
  const worker = async () => {
    const clients = new Clients(rig, ledger)
    while (next < REQUESTS) {
      next += 1
      await clients.call(next - 1)
    }
    clients.close()
  }
  await Promise.all(Array.from({ length: AT_ONCE }, worker))
  const counts = Object.fromEntries([...ledger.answers].toSorted())
  t.comment(`${Math.round((performance.now() - startMs) / 1000)} s`, counts)

  t.same(ledger.faults.slice(0, 5), [], `${ledger.faults.length} of the answers are not as documented`)
  for (const kind of KINDS) t.ok(counts[`${kind}: whole`], `a ${kind} was answered`)
  for (const failed of ['UPSTREAM_ERROR', 'UPSTREAM_TIMEOUT', 'UPSTREAM_REJECTED', 'cut'])
    t.ok(
      Object.keys(counts).some((name) => name.endsWith(`: ${failed}`)),
      `${failed} was met`,
    )

  t.equal((await fetch(`${gateway.url}/healthz`)).status, 200, 'the gateway is alive')
  // Idle connections are given up after seconds; one of a request that was never ended stays.
  await waitUntil(async () => (await connectionsTo(upstreamPort)) === 0, LEFT_MAX_MS)
  t.equal(await connectionsTo(upstreamPort), 0, 'no connection to the provider is left')
  const files = await openFiles(gateway)
  t.ok(files <= startFiles + FILES_MORE_MAX, `${files} files are open, ${startFiles} were at the start`)
  const peakMiB = await gateway.peakRssMiB()
  t.ok(peakMiB < RSS_MAX_MIB, `${Math.round(peakMiB)} MiB at most`)
  await assertStopsClean(t, gateway)
  t.match(
    gateway.log.find(({ msg }) => msg === 'stopping'),
    { in_flight: 0 },
    'nothing was under way',
  )
  t.same(lineFaults(gateway, ledger).slice(0, 5), [], 'the log tells what the clients were told')
})
