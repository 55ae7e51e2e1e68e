import t from 'tap'
import { answeringAttempt, attemptBars } from '../../../src/console/page/components/attempts.ts'
import {
  costDecimals,
  coverageWords,
  firstPage,
  isFiltered,
  listQuery,
  newerThan,
  olderThan,
  PAGE_SIZE,
  ROWS_MAX,
  readFilter,
  withNewer,
  withNewest,
  withOlder,
} from '../../../src/console/page/views/requests/request-list.ts'

import type { RequestAnswer } from '../../../src/console/server/answers/requests.ts'

const START_MS = Date.parse('2026-11-20T09:00:00.000Z')

/** The nth request, one a second. */
const request = (n: number, more: Partial<RequestAnswer> = {}): RequestAnswer => ({
  live: null,
  cache: null,
  record_id: `rec_${n}`,
  id: `req_${n}`,
  at: new Date(START_MS + n * 1_000).toISOString(),
  app: 'web',
  key_id: 'key_web',
  key_name: 'web key',
  method: 'POST',
  path: '/v1/transcription',
  status: 200,
  error: null,
  failure: null,
  milliseconds: 100,
  added_milliseconds: 1,
  received_bytes: 1,
  sent_bytes: 1,
  route: 'voice',
  policy_version_id: 'pv_1',
  job_id: null,
  replayed: false,
  attempts: [],
  usage: null,
  cost_usd: null,
  ...more,
})

/** Newest first, both ends included. */
const requests = (from: number, to: number) =>
  Array.from({ length: from - to + 1 }, (_, index) => request(from - index))
const ids = (rows: readonly RequestAnswer[]) => rows.map(({ record_id: id }) => Number(id.slice(4)))

t.test('filters are fields of the address', async (t) => {
  const filter = readFilter(new URLSearchParams('outcome=failed&path=/v1/speech&app=web&key=key_1&id=..&x=1'))
  t.same(filter, { outcome: 'failed', path: '/v1/speech', app: 'web', key: 'key_1', id: '..', all: false })
  t.equal(
    listQuery(filter, { beforeMs: 5 }),
    `?outcome=failed&path=%2Fv1%2Fspeech&app=web&key_id=key_1&request_id=..&before=5&limit=${PAGE_SIZE}`,
  )
  const ofLog = readFilter(new URLSearchParams('tab=log&outcome=error&key_id=key_1'))
  t.match(ofLog, { outcome: 'failed', key: 'key_1' }, 'as the log calls them')
  const none = readFilter(new URLSearchParams('outcome=maybe'))
  t.notOk(isFiltered(none))
  t.equal(listQuery(none), `?limit=${PAGE_SIZE}`)
  const all = readFilter(new URLSearchParams('all=true'))
  t.notOk(isFiltered(all), 'a wider list is none that was narrowed')
  t.equal(listQuery(all), `?all=true&limit=${PAGE_SIZE}`)
  t.equal(listQuery(none, { afterMs: 7, limit: ROWS_MAX }), `?after=7&limit=${ROWS_MAX}`)
})

t.test('who follows sees new requests on top, who reads finds them waiting', async (t) => {
  const first = firstPage(requests(100, 51))
  t.ok(first.more)
  t.equal(newerThan(first), START_MS + 95_000, 'nodes may be a little late')
  const live = withNewest(first, requests(103, 95), true)
  t.same(ids(live.rows), ids(requests(103, 51)))
  const waiting = withNewest(live, requests(178, 98), false)
  t.equal(waiting.rows, live.rows, 'nothing moves')
  t.equal(waiting.newer.length, 75)
  t.same(ids(withNewer(waiting).rows), ids(requests(178, 51)))
  t.equal(withNewest(waiting, requests(178, 170), false), waiting, 'nothing new, nothing drawn')
  const late = withNewest(live, [request(102.5, { record_id: 'rec_late' })], true)
  t.equal(
    late.rows.findIndex(({ record_id: id }) => id === 'rec_late'),
    1,
    'a late one takes its place',
  )
})

t.test('never more rows than the bound, however long it lasts', async (t) => {
  let list = firstPage(requests(50, 1))
  for (let newest = 51; newest <= 5_000; newest += 125)
    list = withNewest(list, requests(newest + 124, newest), true)
  t.equal(list.rows.length, ROWS_MAX)
  t.ok(list.more, 'those that were let go can be loaded again')
  t.equal(olderThan(list), START_MS + Number(ids(list.rows).at(-1)) * 1_000 + 1)
  let read = firstPage(requests(50, 1))
  for (let newest = 51; newest <= 5_000; newest += 125)
    read = withNewest(read, requests(newest + 124, newest), false)
  t.equal(read.rows.length, 50)
  t.equal(read.newer.length, ROWS_MAX)
  t.ok(read.gap)
  t.same(
    ids(withNewer(read).rows),
    ids(read.newer),
    'after a gap, older rows are not shown as if they followed',
  )
})

t.test('a page that does not reach what is known leaves a gap', async (t) => {
  const list = firstPage(requests(100, 51))
  const far = withNewest(list, requests(2_000, 2_001 - ROWS_MAX), true)
  t.same(ids(far.rows), ids(requests(2_000, 2_001 - ROWS_MAX)))
  t.ok(far.more)
  t.notOk(far.gap)
})

t.test('older pages push the newest rows out, which wait to be shown again', async (t) => {
  let list = firstPage(requests(1_000, 951))
  for (let oldest = 950; oldest > 550; oldest -= PAGE_SIZE)
    list = withOlder(list, requests(oldest, oldest - PAGE_SIZE + 1))
  t.equal(list.rows.length, ROWS_MAX)
  t.equal(ids(list.rows).at(-1), 551)
  t.same(ids(list.newer), ids(requests(1_000, 551 + ROWS_MAX)))
  t.same(ids(withNewer(list).rows), ids(requests(1_000, 1_001 - ROWS_MAX)))
})

t.test('older ones are asked for from the last one on', async (t) => {
  const list = firstPage(requests(100, 51))
  t.equal(olderThan(list), START_MS + 51_000 + 1)
  t.equal(olderThan({ rows: [] }), null)
  t.equal(newerThan({ rows: [], newer: [] }), null)
  t.notOk(withOlder(list, requests(50, 40)).more)
  t.same(
    ids(withOlder(list, requests(51, 2)).rows),
    ids(requests(100, 2)),
    'the one that comes again is shown once',
  )
})

t.test('records with one request id are as many rows', async (t) => {
  const runs = [request(2, { id: 'req_job', path: 'job' }), request(1, { id: 'req_job', path: 'job' })]
  t.equal(withOlder(firstPage([runs[0]!]), runs).rows.length, 2)
})

t.test('the list says how much it holds', async (t) => {
  const words = (over: object) =>
    coverageWords({ requests: 10_000, recorded: 350, failures_dropped: 0, ...over }, String)
  t.match(words({}), /^350 of 10000 requests in the last hour were recorded: every failure/)
  t.match(words({ failures_dropped: 7 }), /7 failures are missing: a node records at most 200 a second/)
  t.match(words({ recorded: 10_000 }), /^All 10000 requests/)
  t.equal(words({ requests: 0 }), null)
  t.equal(coverageWords(null, String), null)
})

t.test('who served is who answered', async (t) => {
  const attempts = [attempt(1, 'status 503'), attempt(2, 'status 500')]
  t.equal(answeringAttempt({ attempts }), null, 'none of a 502')
  t.match(answeringAttempt({ attempts: [...attempts, { ...attempt(3), model: 'third' }] }), {
    model: 'third',
  })
  t.equal(answeringAttempt({ attempts: [] }), null)
})

t.test('a column of costs has one precision', async (t) => {
  const of = (...costs: (number | null)[]) => costDecimals(costs.map((cost_usd) => ({ cost_usd })))
  t.equal(of(0.01, 2.5, null), 2)
  t.equal(of(0.01, 0.0006), 6)
  t.equal(of(1.1, 0.1 + 0.2), 2)
  t.equal(of(), 2)
})

const attempt = (milliseconds: number, reason = 'ok') => ({
  provider: 'sandbox',
  model: 'morse-1',
  status: 200,
  milliseconds,
  reason,
})

t.test('attempts lie one after the other at the end of their request', async (t) => {
  const { bars, totalMs } = attemptBars({
    milliseconds: 1_000,
    attempts: [attempt(200, 'status 503'), attempt(300)],
  })
  t.equal(totalMs, 1_000)
  t.match(bars, [
    { from: 0.5, length: 0.2, ok: false },
    { from: 0.7, length: 0.3, ok: true },
  ])
  const rounded = attemptBars({ milliseconds: 10, attempts: [attempt(8), attempt(4)] })
  t.equal(rounded.totalMs, 12, 'clocks round: no bar leaves its axis')
  t.match(attemptBars({ milliseconds: 0, attempts: [attempt(0)] }).bars, [{ from: 0, length: 0 }])
  t.same(attemptBars({ milliseconds: 5, attempts: [] }).bars, [])
})
