import t from 'tap'
import type { Failure, FailureKind } from '../../../src/contracts/upstream.ts'
import { type CircuitBreakers, createCircuitBreakers } from '../../../src/gateway/call/select/health.ts'
import { entry } from '../../support/catalog.ts'

const SECOND = 1000

function failure(kind: FailureKind = 'server', retryAfterMs: number | null = null): Failure {
  return { kind, status: 500, reason: 'the provider failed', retryAfterMs, providerMessage: null }
}

/** One entry of a fresh book, and a clock that the test sets. */
function patient() {
  const book: CircuitBreakers = createCircuitBreakers()
  const one = entry()
  let nowMs = 1_000_000.5
  return {
    pass: (milliseconds: number) => {
      nowMs += milliseconds
    },
    now: () => nowMs,
    fail: (times = 1, what: Failure = failure()) => {
      for (let count = 0; count < times; count += 1) book.failed(one, what, nowMs)
    },
    succeed: (times = 1) => {
      for (let count = 0; count < times; count += 1) book.succeeded(one, nowMs)
    },
    admit: () => book.admit(one, nowMs),
    release: () => book.released(one),
    view: () => book.view(one, nowMs),
    state: () => book.view(one, nowMs).state,
    condition: () => book.condition(one, nowMs),
  }
}

t.test('an entry that nothing is known of is healthy', async (t) => {
  const { view, admit, release } = patient()
  t.same(view(), { state: 'closed', untilMs: null, openedAtMs: null })
  t.ok(admit())
  release()
  t.equal(view().state, 'closed')
})

t.test('five failures in a row open the breaker for ten seconds', async (t) => {
  const one = patient()
  one.fail(4)
  one.succeed()
  one.fail(4)
  t.equal(one.state(), 'closed', 'an answer in between starts the row anew')
  one.fail()
  const openedAtMs = one.now()
  t.same(one.view(), { state: 'open', untilMs: openedAtMs + 10 * SECOND, openedAtMs })
  t.notOk(one.admit())
  one.pass(10 * SECOND - 0.5)
  t.equal(one.state(), 'open')
  one.pass(0.5)
  t.equal(one.state(), 'half_open')
})

t.test('failures in a row may be hours apart', async (t) => {
  const one = patient()
  for (let count = 0; count < 5; count += 1) {
    t.equal(one.state(), 'closed')
    one.fail()
    one.pass(3_600 * SECOND)
  }
  t.equal(one.state(), 'half_open', 'opened by the fifth, an hour ago')
})

t.test('half of twenty calls within thirty seconds open it too', async (t) => {
  const alternate = (one: ReturnType<typeof patient>, pairs: number) => {
    for (let pair = 0; pair < pairs; pair += 1) {
      one.succeed()
      one.fail()
    }
  }
  const few = patient()
  alternate(few, 9)
  few.succeed()
  t.equal(few.state(), 'closed', '19 calls are too few')
  few.fail()
  t.equal(few.state(), 'open', '10 of 20')

  few.pass(10 * SECOND)
  few.admit()
  few.succeed()
  few.fail()
  t.equal(few.state(), 'closed', 'after a good trial the count begins anew')

  const rare = patient()
  rare.succeed(3)
  alternate(rare, 20)
  t.equal(rare.state(), 'closed', '20 of 43')

  const old = patient()
  alternate(old, 9)
  old.pass(31 * SECOND)
  alternate(old, 9)
  t.equal(old.state(), 'closed', 'the first ones are too old to count')
})

t.test('a half-open breaker lets one trial through', async (t) => {
  const halfOpen = () => {
    const one = patient()
    one.fail(5)
    one.pass(10 * SECOND)
    return one
  }

  const cured = halfOpen()
  t.ok(cured.admit())
  t.notOk(cured.admit(), 'one at a time')
  t.ok((cured.view().untilMs ?? 0) > cured.now(), 'seen as taken')
  cured.succeed()
  t.same(cured.view(), { state: 'closed', untilMs: null, openedAtMs: null })
  cured.fail(4)
  t.equal(cured.state(), 'closed', 'what opened it is forgotten')

  const ill = halfOpen()
  ill.admit()
  ill.pass(3 * SECOND)
  ill.fail()
  t.same(ill.view(), { state: 'open', untilMs: ill.now() + 10 * SECOND, openedAtMs: ill.now() })

  const left = halfOpen()
  left.admit()
  left.release()
  t.ok(left.admit(), 'the caller left: the trial is free again')

  const refused = halfOpen()
  refused.admit()
  refused.fail(1, failure('caller'))
  t.ok(refused.admit(), 'the caller was at fault: the trial is free again')

  const lost = halfOpen()
  lost.admit()
  lost.pass(600 * SECOND - 1)
  t.notOk(lost.admit())
  lost.pass(1)
  t.ok(lost.admit(), 'a trial that nobody reports on blocks for ten minutes only')
})

t.test('what began before the breaker opened decides nothing', async (t) => {
  const one = patient()
  one.fail(5)
  const opened = one.view()
  one.pass(SECOND)
  one.succeed()
  one.fail(7)
  t.same(one.view(), opened)
  one.pass(9 * SECOND)
  one.succeed()
  t.equal(one.state(), 'half_open')
})

t.test('what another entry could not cure either never counts', async (t) => {
  const one = patient()
  for (const kind of ['caller', 'content'] as const) one.fail(50, failure(kind, 60 * SECOND))
  t.equal(one.state(), 'closed')
  for (const kind of ['rate', 'server', 'connect', 'ambiguous', 'credential', 'model'] as const) {
    const other = patient()
    other.fail(5, failure(kind))
    t.equal(other.state(), 'open', kind)
  }
})

t.test('Retry-After makes an entry cool down, whatever its breaker', async (t) => {
  const one = patient()
  one.fail(1, failure('rate', 30 * SECOND))
  const untilMs = one.now() + 30 * SECOND
  t.same(one.view(), { state: 'cooling', untilMs, openedAtMs: null })
  t.notOk(one.admit())
  one.fail(1, failure('rate', SECOND))
  one.succeed()
  t.equal(one.view().untilMs, untilMs, 'neither a shorter time nor an answer shortens it')
  one.pass(30 * SECOND)
  t.equal(one.state(), 'closed')

  one.fail(4)
  one.fail(1, failure('rate', 12 * SECOND))
  const openedAtMs = one.now()
  t.same(one.view(), { state: 'cooling', untilMs: openedAtMs + 12 * SECOND, openedAtMs })
  one.pass(12 * SECOND)
  t.equal(one.state(), 'half_open', 'the breaker went on meanwhile')
  t.ok(one.admit())
})

t.test('entries do not share their health', async (t) => {
  const book = createCircuitBreakers()
  const [ill, well] = [entry(), entry()]
  for (let count = 0; count < 5; count += 1) book.failed(ill, failure(), 0)
  t.equal(book.view(ill, 0).state, 'open')
  t.equal(book.view(well, 0).state, 'closed')
})

t.test('since when it is in its state, and what failed last, is known', async (t) => {
  const one = patient()
  t.same(one.condition(), { state: 'closed', sinceMs: null, lastFailure: null })
  one.fail(4)
  const late = { ...failure(), reason: 'it is overloaded' }
  one.pass(SECOND)
  one.fail(1, late)
  const openedMs = one.now()
  one.pass(3 * SECOND)
  const lastFailure = { failure: late, atMs: openedMs }
  t.same(one.condition(), { state: 'open', sinceMs: openedMs, lastFailure })
  one.pass(20 * 60 * SECOND)
  t.same(
    one.condition(),
    { state: 'half_open', sinceMs: openedMs + 10 * SECOND, lastFailure },
    'without traffic it stays so',
  )
  one.admit()
  one.succeed()
  t.match(one.condition(), { state: 'closed', sinceMs: null, lastFailure })
  const pauseMs = one.now()
  one.fail(1, failure('rate', 5 * SECOND))
  one.pass(2 * SECOND)
  one.fail(1, failure('rate', 5 * SECOND))
  t.match(one.condition(), { state: 'cooling', sinceMs: pauseMs })
})

t.test('an attempt from before a trial decides nothing of it, and a line that is up ends it', async (t) => {
  const book = createCircuitBreakers()
  const one = entry()
  for (let count = 0; count < 5; count += 1) book.failed(one, failure(), 1_000, 500)
  t.ok(book.admit(one, 11_000))
  book.released(one, 10_999)
  book.failed(one, failure('caller'), 11_500, 10_999)
  book.failed(one, failure(), 11_500, 10_999)
  book.succeeded(one, 11_500, 10_999)
  book.connected(one, 10_999)
  t.notOk(book.admit(one, 11_500), 'the trial is still under way')
  t.equal(book.view(one, 11_500).state, 'half_open')
  book.connected(one, 11_000)
  t.equal(book.view(one, 11_500).state, 'closed')
  t.ok(book.admit(one, 11_500))
})
