import t from 'tap'
import {
  chipText,
  continuedSearch,
  filterFault,
  isLogFiltered,
  logFields,
  logQuery,
  readLogFilter,
  searchedWords,
} from '../../../src/console/page/views/requests/log-filter.ts'
import { phasesOf } from '../../../src/console/page/views/requests/phases.ts'
import { isSameCall } from '../../../src/console/page/views/requests/tries.ts'

const NOW_MS = Date.parse('2026-11-22T10:31:00Z')
const read = (query: string, workspace: string | null = 'acme') =>
  readLogFilter(new URLSearchParams(query), workspace)
const fields = (query: string, workspace: string | null = 'acme') => {
  const given = Object.entries(logFields(workspace, read(query, workspace), NOW_MS))
  return Object.fromEntries(given.filter(([, value]) => value !== null && value !== ''))
}

t.test('filters are fields of the address, and of the API', async (t) => {
  t.same(fields(''), { workspace: 'acme', from: '2026-11-15T10:00:00.000Z' }, 'whole hours, which sums know')
  t.same(
    fields('range=1h'),
    { workspace: 'acme', from: '2026-11-22T09:00:00.000Z' },
    'not less than was asked for',
  )
  t.same(fields('range=all'), { workspace: 'acme' })
  t.same(fields('range=nonsense&outcome=maybe&status='), fields(''))
  t.same(fields('outcome=failed').outcome, 'error', 'as the newest requests call it')
  t.same(fields('range=all&app=web&key=key_1&min_ms=500&status=5xx&playground=true'), {
    workspace: 'acme',
    ...{ app: 'web', key_id: 'key_1', min_ms: '500', status: '5xx', playground: 'true' },
  })
  t.same(fields('from=2026-11-20T00:00Z&to=soon'), { workspace: 'acme', from: '2026-11-20T00:00:00.000Z' })
  t.same(fields('id=req_1'), { workspace: 'acme', id: 'req_1' }, 'an id is looked for at any time')
  t.same(fields('id=req_1&from=2026-11-20').from, '2026-11-20T00:00:00.000Z', 'unless a time is chosen')
  t.same(fields('range=all&workspace=other'), { workspace: 'acme' }, 'the log of one workspace stays there')
  t.same(fields('range=all&workspace=other', null), { workspace: 'other' })
  t.same(fields('range=all', null), {}, 'of all of them')
  t.notOk(isLogFiltered(read('range=30d&playground=true')))
  for (const query of ['id=1', 'outcome=left', 'model=m', 'to=2026-11-20'])
    t.ok(isLogFiltered(read(query)), query)
})

t.test('a continued list keeps its beginning', async (t) => {
  const last = { ended_at: '2026-11-20T10:00:00.250Z' }
  const search = '?tab=log&range=7d&app=web'
  const next = continuedSearch(search, logFields('acme', read(search), NOW_MS), last)
  t.same(fields(next), {
    ...{ workspace: 'acme', app: 'web' },
    ...{ from: '2026-11-15T10:00:00.000Z', to: '2026-11-20T10:00:00.251Z' },
  })
  const all = continuedSearch('?range=all', logFields('acme', read('range=all'), NOW_MS), last)
  t.same(fields(all), { workspace: 'acme', to: '2026-11-20T10:00:00.251Z' })
})

t.test('records without a value can be looked for', async (t) => {
  const filter = read('range=all&model=~none&status=~none&kind=~none')
  t.same(filter.chips.map(chipText), ['Model: none'], 'where the API can')
  t.equal(
    logQuery('/log-rows', logFields('acme', filter, NOW_MS), { after: 'a' }),
    '/log-rows?workspace=acme&model=&after=a',
  )
  t.equal(logQuery('/log', logFields(null, read('range=all', null), NOW_MS)), '/log')
})

t.test('values of filters are judged where they are typed', async (t) => {
  for (const [name, good, bad] of [
    ['status', '502', '600'],
    ['status', '4xx', 'xx'],
    ['min_ms', '1500', '1.5'],
    ['min_cost_usd', '0.05', '5 cents'],
    ['model', 'gpt-4o', ''],
  ] as const) {
    t.equal(filterFault(name, good), null, good)
    t.match(filterFault(name, bad), /^Enter /, bad)
  }
  t.equal(chipText(['min_ms', '500']), 'Duration at least 500 ms')
  t.equal(chipText(['min_cost_usd', '0.5']), 'Cost at least $0.5')
  t.equal(chipText(['provider', 'openai']), 'Provider: openai')
})

t.test('the parts of a time come to the whole', async (t) => {
  const parts = (total: number, body: number | null, upstream: number | null, first: number | null) => {
    const record = { kind: 'call', total_ms: total, body_ms: body, upstream_ms: upstream, first_ms: first }
    return phasesOf(record).map(({ name, milliseconds }) => [name, milliseconds])
  }
  t.same(parts(100, 20, 70, null), [
    ['body', 20],
    ['upstream', 70],
    ['own', 10],
  ])
  t.same(parts(100, null, 30, 40), [
    ['upstream', 30],
    ['own', 10],
    ['stream', 60],
  ])
  t.same(parts(100, 90, 60, null), [
    ['body', 90],
    ['upstream', 10],
  ])
  t.same(parts(100, 50, 100, 20), [
    ['body', 50],
    ['stream', 50],
  ])
  t.same(parts(100, null, null, null), [], 'nothing is known')
  t.same(parts(0, 0, 0, 0), [])
  t.same(phasesOf({ kind: 'session', total_ms: 9, body_ms: 1, upstream_ms: 1, first_ms: 1 }), [])
  const [queue] = phasesOf({ kind: 'job', total_ms: 9, body_ms: null, upstream_ms: 4, first_ms: null }).slice(
    1,
  )
  t.match(queue, { label: 'Queue and Larkway', milliseconds: 5 })
})

t.test('a record and a recorded request are one where they have tried the same', async (t) => {
  const tries = [
    { provider: 'a', model: 'm', reason: 'it is overloaded' },
    { provider: 'b', model: 'n', reason: 'ok' },
  ]
  const attempts = tries.map((one) => ({ ...one, status: null, milliseconds: 1 }))
  const request = { attempts, job_id: null, replayed: false }
  const record = { tries, replayed: false }
  t.ok(isSameCall(request, record))
  t.ok(
    isSameCall({ ...request, attempts: [{ ...attempts[0]!, reason: 'overloaded' }, attempts[1]!] }, record),
  )
  t.notOk(isSameCall({ ...request, attempts: attempts.slice(1) }, record))
  t.notOk(isSameCall({ ...request, attempts: attempts.toReversed() }, record))
  t.notOk(isSameCall({ ...request, attempts: attempts.map((one) => ({ ...one, reason: 'ok' })) }, record))
  t.notOk(isSameCall({ ...request, job_id: 'tj_1' }, record), 'a run of a job')
  t.notOk(isSameCall({ ...request, replayed: true }, record))
})

t.test('what was looked at is told', async (t) => {
  const write = (ms: number) => new Date(ms).toISOString().slice(0, 10)
  t.equal(
    searchedWords({ from: '2023-01-01T00:00:00Z', to: '2026-03-01T00:00:00Z' }, write),
    'up to 2026-03-01',
  )
  t.equal(
    searchedWords({ from: '2026-02-01T00:00:00Z', to: '2026-03-01T00:00:00Z' }, write),
    'from 2026-02-01 to 2026-03-01',
  )
})
