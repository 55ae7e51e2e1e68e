import t from 'tap'
import type { RequestAnswer } from '../../../../src/routes/console/api/answers.ts'
import { attemptBars } from '../../../../src/routes/console/page/views/requests/attempt-times.ts'
import { ENDPOINTS } from '../../../../src/routes/console/page/views/requests/endpoints.ts'
import {
  isFiltered,
  listQuery,
  olderThan,
  PAGE_SIZE,
  readFilter,
  withNewest,
  withOlder,
} from '../../../../src/routes/console/page/views/requests/request-list.ts'
import type { Doors } from '../../../../src/routes/endpoint.ts'
import type { Readiness } from '../../../../src/routes/health.ts'
import { createRoutes } from '../../../../src/routes/table.ts'
import type { WebhookOptions } from '../../../../src/routes/workspace-webhook.ts'

const START_MS = Date.parse('2026-11-20T09:00:00.000Z')

/** The nth request, one a second. */
const request = (n: number, more: Partial<RequestAnswer> = {}): RequestAnswer => ({
  id: `req_${n}`,
  at: new Date(START_MS + n * 1_000).toISOString(),
  app: 'web',
  key_id: 'key_web',
  method: 'POST',
  path: '/v1/transcription',
  status: 200,
  error: null,
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
const ids = (rows: readonly RequestAnswer[]) => rows.map(({ id }) => Number(id.slice(4)))

t.test('every endpoint whose requests are noted can be filtered by', async (t) => {
  // Nobody goes through them.
  const doors = { services: { state: {} }, jobs: {} } as unknown as Doors
  const routes = createRoutes(doors, {} as Readiness, null, {} as WebhookOptions)
  const noted = routes.map(({ path }) => path).filter((path) => /^(\/openai)?\/v1\//.test(path))
  t.same([...ENDPOINTS].sort(), [...new Set([...noted, 'job'])].sort())
})

t.test('filters are fields of the address', async (t) => {
  const filter = readFilter(new URLSearchParams('outcome=failed&path=/v1/speech&app=web&key=key_1&x=1'))
  t.same(filter, { outcome: 'failed', path: '/v1/speech', app: 'web', key: 'key_1' })
  t.equal(
    listQuery(filter, 5),
    `?outcome=failed&path=%2Fv1%2Fspeech&app=web&key_id=key_1&before=5&limit=${PAGE_SIZE}`,
  )
  const none = readFilter(new URLSearchParams('outcome=maybe'))
  t.notOk(isFiltered(none))
  t.equal(listQuery(none, null), `?limit=${PAGE_SIZE}`)
})

t.test('new requests come before those that were loaded', async (t) => {
  const first = withNewest(null, requests(100, 51))
  t.ok(first.more)
  const both = withOlder(first, requests(51, 2))
  t.same(ids(both.rows), ids(requests(100, 2)), 'the one that comes again is shown once')
  const live = withNewest(both, requests(103, 54))
  t.same(ids(live.rows), ids(requests(103, 2)))
  t.ok(live.more)
  const gap = withNewest(live, requests(300, 251))
  t.same(ids(gap.rows), ids(requests(300, 251)), 'behind a gap nothing is shown as if it followed')
  t.ok(gap.more)
  t.same(withNewest(live, requests(3, 1)), { rows: requests(3, 1), more: false }, 'a short page is all')
  t.same(withNewest(live, []), { rows: [], more: false })
})

t.test('older ones are asked for from the last one on', async (t) => {
  const list = withNewest(null, requests(100, 51))
  t.equal(olderThan(list), START_MS + 51_000 + 1)
  t.equal(olderThan({ rows: [], more: false }), null)
  t.notOk(withOlder(list, requests(50, 40)).more)
})

t.test('two runs with one id are two rows', async (t) => {
  const runs = [request(2, { id: 'req_job', path: 'job' }), request(1, { id: 'req_job', path: 'job' })]
  t.equal(withOlder({ rows: [runs[0]!], more: true }, runs).rows.length, 2)
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
