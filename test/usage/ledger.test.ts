import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { createLogger } from '../../src/contracts/log.ts'
import { CallContext } from '../../src/gateway/call/context/call-context.ts'
import { lockRemovable } from '../../src/gateway/storage/folder-lock.ts'
import { UsageLedger } from '../../src/usage/ledger.ts'
import { WriteAhead } from '../../src/usage/write-ahead.ts'
import { principal } from '../support/catalog.ts'
import { readSegmentFile, segmentRecords, usageRecords } from '../support/usage-records.ts'
import { waitUntil } from '../support/wait-until.ts'

const CALLS = new Set(['POST /v1/chat', 'POST /v1/transcription', 'GET /v1/transcription/stream'])

/** Nothing is written by itself. */
const TIMING = { gatherMs: 600_000, segmentMs: 600_000, syncMs: 600_000 }
const STREAM = { method: 'GET', pattern: '/v1/transcription/stream' }

function nullIfGone(error: NodeJS.ErrnoException): null {
  if (error.code === 'ENOENT') return null
  throw error
}

/** @param syncMs how often open sessions are looked at */
async function opened(t: Test, { syncMs } = TIMING) {
  const root = t.testdir()
  const log = createLogger('silent')
  const rows = await WriteAhead.open({
    root,
    lock: lockRemovable,
    roll: null,
    backlogBytes: 1e9,
    log,
    timing: { ...TIMING, syncMs },
  })
  t.teardown(() => rows.close())
  const ledger = new UsageLedger({ rows, node: 'node', paramOf: () => null, calls: CALLS })
  /** A call that was answered, and goes by its id. */
  const call = (requestId: string, sentBytes = 500, endpoint = { method: 'POST', pattern: '/v1/chat' }) => {
    const exchange = {
      ...{ requestId, ...endpoint, status: 200, elapsedMs: 40.4, bodyMs: 0 },
      ...{ firstByteMs: null, receivedBytes: 100, sentBytes, signal: new AbortController().signal },
    }
    const context = new CallContext(exchange)
    context.identify(principal())
    return { exchange, context }
  }
  return {
    rows,
    ledger,
    call,
    over(id: string, sentBytes?: number) {
      const { exchange, context } = call(id, sentBytes)
      ledger.over(exchange, context)
    },
    /** What is known of open sessions on the disk; null: there is no file of it. */
    async open() {
      const names = await readdir(root, { recursive: true })
      const name = names.find((one) => one.endsWith('open-sessions'))
      if (name === undefined) return null
      // It may be removed after it was listed.
      const segment = await readSegmentFile(join(root, name)).catch(nullIfGone)
      if (segment === null) return null
      const known = segmentRecords(segment)
      return [...new Map(known.map((record) => [record.record_id, record])).values()]
    },
    ids: async () => (await usageRecords(root)).map(({ request_id }) => request_id),
    records: () => usageRecords(root),
  }
}

t.test('a record tells of the moment when the call was over, whenever it is made', async (t) => {
  const { ledger, rows, call, records } = await opened(t)
  const { exchange, context } = call('req')
  const beforeMs = Date.now()
  ledger.over(exchange, context)
  const afterMs = Date.now()
  exchange.elapsedMs = 90
  await new Promise((resolve) => setTimeout(resolve, 50))
  t.ok(rows.doneUntilMs < afterMs, 'nobody is told meanwhile that there is none')
  t.ok(rows.isDone === false)
  rows.flush()
  const [record, ...others] = await records()
  t.same(others, [])
  t.match(record, { request_id: 'req', total_ms: 40, received_bytes: 100, sent_bytes: 500 })
  const { ended_at, started_at } = record!
  t.ok(ended_at >= beforeMs && ended_at <= afterMs)
  t.equal(started_at, ended_at - 40)
})

t.test('what is large is not kept until there are more', async (t) => {
  const { over, rows } = await opened(t)
  over('small')
  t.equal(rows.figures().written, 0)
  over('large', 1024 * 1024)
  t.equal(rows.figures().written, 2, 'nor what came before it')
})

t.test('records are made together, in their order, and all of them', async (t) => {
  const { over, rows, ids } = await opened(t)
  const sent = Array.from({ length: 200 }, (_, at) => `req_${at}`)
  for (const id of sent) over(id)
  const { written } = rows.figures()
  t.ok(written > 0 && written < sent.length, `${written}`)
  rows.flush()
  t.same(await ids(), sent)
})

t.test('before money is told, the record is in the kernel, whether the call is over or not', async (t) => {
  const { ledger, rows, call, ids } = await opened(t)
  const [over, open_] = [call('over'), call('open')]
  for (const { context } of [over, open_]) {
    context.money.charged(7)
    ledger.charged(context, false, null)
  }
  ledger.over(over.exchange, over.context)
  t.same(await ids(), [])
  ledger.beforeReport()
  t.same(await ids(), ['over', 'open'])
  ledger.over(open_.exchange, open_.context)
  rows.flush()
  t.same(await ids(), ['over', 'open'], 'and it is one')
  t.equal(rows.figures().written, 2)
})

t.test('a session is known on the disk until it has a record, however long its money takes', async (t) => {
  const { ledger, call, open, records } = await opened(t, { ...TIMING, syncMs: 10 })
  const { exchange, context } = call('req', 500, STREAM)
  context.sessionId = 'live_one'
  context.money.reserved()
  ledger.opened(context, () => ({ ended: null, audio_seconds: 2, switches: 0 }))
  const known = async () => (await open())?.[0] ?? null
  t.match(await known(), { record_id: 'live_one', outcome: 'error', error_code: 'INTERNAL', cost_usd: 0 })
  context.money.charged(7)
  ledger.over(exchange, context)
  const isOver = async () => (await known())?.outcome === 'ok'
  t.ok(await waitUntil(isOver, 10_000), 'it is over, but for its money')
  t.match(await known(), { record_id: 'live_one', cost_usd: 7, estimated: true })
  t.same(await records(), [])
  context.money.charged(5)
  context.money.settled()
  t.ok(await waitUntil(async () => (await open()) === null), 'and forgotten')
  const all = await records()
  t.equal(all.length, 1)
  t.match(all[0], { record_id: 'live_one', outcome: 'ok', cost_usd: 12 })
})

t.test('sessions and their money are on the disk before anybody else hears of them', async (t) => {
  const { ledger, call, open } = await opened(t)
  const contexts = Array.from({ length: 50 }, (_, at) => {
    const { context } = call(`req_${at}`, 0, STREAM)
    context.sessionId = `live_${at}`
    ledger.opened(context, () => ({ ended: null, audio_seconds: at, switches: 0 }))
    return context
  })
  const [first] = contexts as [(typeof contexts)[0]]
  t.match(
    await open(),
    contexts.map((_, at) => ({ record_id: `live_${at}`, status: 200, audio_seconds: at * 1_000 })),
  )
  for (const isSettling of [true, false]) {
    first.money.charged(4)
    ledger.charged(first, isSettling, null)
    t.match((await open())?.[0], { record_id: 'live_0', cost_usd: isSettling ? 4 : 8 })
  }
  t.match((await open())?.[1], { record_id: 'live_1', cost_usd: 0 })
})

t.test('a request that is no session of the ledger leaves nothing behind', async (t) => {
  const { ledger, call, open } = await opened(t, { ...TIMING, syncMs: 10 })
  const { exchange, context } = call('req', 500, { method: 'GET', pattern: '/v1/models' })
  context.sessionId = 'live_one'
  ledger.opened(context, () => ({ ended: null, audio_seconds: 2, switches: 0 }))
  ledger.over(exchange, context)
  await new Promise((resolve) => setTimeout(resolve, 100))
  t.equal(await open(), null)
})

const JOB = {
  id: 'job_1',
  requestId: 'req_1',
  workspace: 'acme',
  app: 'web',
  keyId: 'key_1',
  endpoint: 'POST /v1/transcription/jobs',
  createdAtMs: 1_790_000_000_000,
} as const

t.test('a job has its record before the state hears of its end, and one', async (t) => {
  const { ledger, rows, records } = await opened(t)
  const signal = new AbortController().signal
  const context = new CallContext({ requestId: 'req_1', signal })
  ledger.ending(JOB, context, { became: 'succeeded', chargedMicros: 5 })
  t.match(await records(), [{ record_id: 'job_1', outcome: 'ok', cost_usd: 5 }])
  ledger.ran(JOB, context, { became: 'cancelled', chargedMicros: 5 })
  rows.flush()
  const all = await records()
  t.equal(all.length, 1)
  t.match(all[0], { record_id: 'job_1', outcome: 'canceled', cost_usd: 5 })
})

t.test('abandoned jobs: the caller learns whether a record is kept', async (t) => {
  const { ledger, rows, records } = await opened(t)
  const job = { ...JOB, work: { operation: 'transcription' }, status: 'failed', facts: null, error: null }
  const abandoned = { job, chargedMicros: 7 } as never
  t.equal(ledger.abandoned(abandoned), true)
  t.match(await records(), [{ record_id: 'job_1', cost_usd: 7 }])
  await rows.close()
  const root = t.testdir()
  const log = createLogger('silent')
  const full = await WriteAhead.open({ root, lock: lockRemovable, roll: null, backlogBytes: 0, log })
  t.teardown(() => full.close())
  const other = new UsageLedger({ rows: full, node: 'node', paramOf: () => null, calls: CALLS })
  t.equal(other.abandoned(abandoned), false)
})

t.test('figures that nobody can mean keep no other record from being read', async (t) => {
  const { ledger, rows, call, records } = await opened(t)
  const sent = [{ audio_seconds: 1e308 }, { input_tokens: 1e300 }, { credits: 2 ** 60 }, { characters: 3 }]
  for (const [at, figures] of sent.entries()) {
    const { exchange, context } = call(`req_${at}`)
    context.money.usage = { total_tokens: 0, ...figures }
    context.money.costUsd = at === 0 ? 1e300 : 0.000001
    ledger.over(exchange, context)
  }
  rows.flush()
  const most = Number.MAX_SAFE_INTEGER
  t.match(await records(), [
    { audio_seconds: most, cost_usd: most },
    { input_tokens: most, cost_usd: 1 },
    { credits: most },
    { request_id: 'req_3', cost_usd: 1 },
  ])
})
