import t, { type Test } from 'tap'
import { CallContext } from '../../src/gateway/call-context.ts'
import { createLogger } from '../../src/log.ts'
import { lockFolder } from '../../src/storage/folder-lock.ts'
import { UsageLedger } from '../../src/usage/ledger.ts'
import { WriteAhead } from '../../src/usage/write-ahead.ts'
import { principal } from '../support/catalog.ts'
import { usageRecords } from '../support/usage-records.ts'

const TIMING = { gatherMs: 600_000, segmentMs: 600_000 }

async function open(t: Test) {
  const root = t.testdir()
  const log = createLogger('silent')
  const rows = await WriteAhead.open({
    root,
    lock: lockFolder,
    roll: null,
    backlogBytes: 1e9,
    log,
    timing: TIMING,
  })
  t.teardown(() => rows.close())
  const ledger = new UsageLedger({ rows, node: 'node', paramOf: () => null })
  /** A call that was answered, and goes by its id. */
  const call = (requestId: string, sentBytes = 500) => {
    const exchange = {
      ...{ requestId, method: 'POST', pattern: '/v1/chat', status: 200, elapsedMs: 40.4, bodyMs: 0 },
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
    ids: async () => (await usageRecords(root)).map(({ request_id }) => request_id),
    records: () => usageRecords(root),
  }
}

t.test('a record tells of the moment when the call was over, whenever it is made', async (t) => {
  const { ledger, rows, call, records } = await open(t)
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
  const { over, rows } = await open(t)
  over('small')
  t.equal(rows.figures().written, 0)
  over('large', 1024 * 1024)
  t.equal(rows.figures().written, 2, 'nor what came before it')
})

t.test('records are made together, in their order, and all of them', async (t) => {
  const { over, rows, ids } = await open(t)
  const sent = Array.from({ length: 200 }, (_, at) => `req_${at}`)
  for (const id of sent) over(id)
  const { written } = rows.figures()
  t.ok(written > 0 && written < sent.length, `${written}`)
  rows.flush()
  t.same(await ids(), sent)
})

t.test('before money is told, the record is in the kernel, whether the call is over or not', async (t) => {
  const { ledger, rows, call, ids } = await open(t)
  const [over, open_] = [call('over'), call('open')]
  for (const { context } of [over, open_]) {
    context.charged(7)
    ledger.charged(context, false)
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
