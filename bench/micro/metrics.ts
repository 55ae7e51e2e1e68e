// What does it cost to count a request, and to be asked for the metrics? Counts requests and their attempts as a node
// does, and renders what comes of several sizes of configuration; `longest_ms` is the longest time in which the event
// loop does nothing else meanwhile.
// Run: node bench/micro/metrics.ts

import { cpus } from 'node:os'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { AppPrincipal, Entry, Route, Snapshot } from '../../src/contracts/catalog.ts'
import { OPERATION_NAMES } from '../../src/contracts/operations.ts'
import { createMetrics, type Metrics } from '../../src/metrics/metrics.ts'
import type { NodeParts } from '../../src/metrics/node-readings.ts'
import { createScrape } from '../../src/metrics/scrape.ts'
import { systemClock } from '../../src/time.ts'
import { Exchange } from './exchange.ts'

const REQUESTS = 1_000_000
const SCRAPES = 50
const ROUTES = 25

function entryOf(at: number): Entry {
  const provider = { name: `provider-${at}`, kind: 'openai', access: 'platform' }
  return { provider, model: `model-${at}` } as Entry
}

function serve(metrics: Metrics | null, pattern: string, entry: Entry, at = 0): void {
  const exchange = new Exchange(pattern)
  metrics?.requests.begun(exchange, null)
  exchange.onFinished(() => {})
  const operation = OPERATION_NAMES[at % OPERATION_NAMES.length]!
  metrics?.calls.attempted({
    ...{ entry, operation, outcome: 'ok', milliseconds: 20, firstDeltaMs: null, failover: false },
  })
  metrics?.calls.metered(entry, operation, { input_tokens: 7, output_tokens: 11, total_tokens: 18 })
  metrics?.calls.charged(entry, 12)
  metrics?.requests.answered(exchange, 20)
  exchange.finish(200)
}

function nanosecondsPerRequest(metrics: Metrics | null): number {
  const entry = entryOf(0)
  const run = () => {
    const before = process.cpuUsage()
    for (let i = 0; i < REQUESTS; i += 1) serve(metrics, '/v1/chat', entry)
    const { user, system } = process.cpuUsage(before)
    return ((user + system) * 1000) / REQUESTS
  }
  return Math.min(...Array.from({ length: 7 }, run))
}

/** A node with so many entries, each in a route of its own, that has served all operations by each of them. */
function servedNode(entries: number): () => Promise<string> {
  const metrics = createMetrics()
  const all = Array.from({ length: entries }, (_, at) => entryOf(at))
  for (let route = 0; route < ROUTES; route += 1)
    for (const entry of all)
      for (const at of OPERATION_NAMES.keys()) serve(metrics, `/v1/route-${route}`, entry, at)
  const apps = all.map((entry, at) => {
    const route = { name: `route-${at}`, workspace: 'bench', entries: [entry] } as unknown as Route
    const app = { route, capabilityRoutes: new Map(), purposes: [] } as unknown as AppPrincipal
    return [`app-${at}`, app] as const
  })
  const snapshot = { apps: new Map([['bench', new Map(apps)]]) } as unknown as Snapshot
  const parts: NodeParts = {
    version: '0',
    clock: systemClock,
    budget: { used: 0, limit: 0, waiting: 0 },
    settlements: { pending: 0 },
    keys: { ageMs: 0 },
    rateLimiter: { figures: () => ({ mode: 'process', decisions: { process: 1 } }) },
    slots: { held: () => 0, waiting: () => 0 },
    replicas: { of: () => null },
    snapshot: () => snapshot,
    healthOf: () => 'closed',
    bodies: () => ({ arriving: 0, uploading: 0, held: 0, stored: 0, demoted: 0, refused: 0, failed: 0 }),
  }
  return createScrape(metrics, { ...parts, figures: async () => ({ waiting: [], ended: [] }) })
}

/** The longest turn of the loop while `asked` goes on. */
async function longestTurnMs(asked: Promise<unknown>): Promise<number> {
  let over = false
  void asked.finally(() => {
    over = true
  })
  let longestMs = 0
  for (let lastMs = performance.now(); !over; ) {
    await nextTurn()
    const nowMs = performance.now()
    longestMs = Math.max(longestMs, nowMs - lastMs)
    lastMs = nowMs
  }
  return longestMs
}

const median = (values: number[]) => values.sort((a, b) => a - b)[values.length >> 1]!

const off = nanosecondsPerRequest(null)
const on = nanosecondsPerRequest(createMetrics())
console.log(`counting a request and its attempt: ${Math.round(on - off)} ns`)

const rows: object[] = []
for (const entries of [1, 20, 200, 1_000]) {
  const scrape = servedNode(entries)
  const [took, longest]: [number[], number[]] = [[], []]
  let text = ''
  for (let i = 0; i < SCRAPES; i += 1) {
    const startMs = performance.now()
    const asked = scrape()
    longest.push(await longestTurnMs(asked))
    text = await asked
    took.push(performance.now() - startMs)
  }
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#')).length
  const [scrape_ms, longest_ms] = [median(took).toFixed(1), median(longest).toFixed(1)]
  rows.push({ entries, lines, kib: Math.round(text.length / 1024), scrape_ms, longest_ms })
}
console.table(rows)
console.log(JSON.stringify({ bench: 'metrics', node: process.version, cpu: cpus()[0]?.model, rows }))
