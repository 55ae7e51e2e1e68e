import t from 'tap'
import type { ByteBudget } from '../../../src/contracts/budget.ts'
import { nextTurn as turn } from '../../../src/contracts/time.ts'
import { readJson } from '../../../src/gateway/edge/json-body.ts'
import { createBudget } from '../../../src/gateway/storage/budget.ts'
import { slices } from '../../support/bodies.ts'
import { FakeExchange, type FakeRequest } from '../../support/fake-exchange.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'
import { waitUntil } from '../../support/wait-until.ts'

/** A budget of `limit` bytes without a queue. */
function budgetOf(limit: number): ByteBudget {
  let used = 0
  const charge = (bytes: number) => {
    used += bytes
  }
  return {
    limit,
    get used() {
      return used
    },
    charge,
    tryReserve(bytes) {
      if (used + bytes > limit) return false
      charge(bytes)
      return true
    },
    refund: (bytes) => charge(-bytes),
  }
}

function read(request: Partial<FakeRequest>, { maxBytes = 1_000_000, budget = budgetOf(10_000_000) } = {}) {
  const exchange = new FakeExchange({ contentType: 'application/json', chunks: [], ...request })
  const value = readJson(exchange, { budget, maxBytes, workspace: 'acme' }, (sent) => sent)
  return { exchange, budget, value }
}

t.test('reads JSON of any size and cut, and charges it while it is held', async (t) => {
  const value = { input: 'Grüße 🐦', list: [1, null, { a: true }] }
  const large = { input: 'Föhn'.repeat(100_000) }
  for (const sent of [value, large]) {
    const body = Buffer.from(JSON.stringify(sent))
    for (const size of sent === large ? [50_000, 1_000_000] : [1, 7, 1000]) {
      for (const contentLength of [body.length, null]) {
        const run = read({
          contentType: 'application/json; charset=utf-8',
          chunks: slices(body, size),
          contentLength,
        })
        t.same(await run.value, sent)
        t.equal(run.budget.used, 3 * body.length, 'it is held as long as the value is')
        run.exchange.finish()
        t.equal(run.budget.used, 0, 'it is given back')
        t.notOk(run.exchange.paused)
      }
    }
  }
})

t.test('large bodies that come together are read in a turn each', async (t) => {
  const body = Buffer.from(JSON.stringify({ input: 'a'.repeat(300_000) }))
  let done = 0
  for (let run = 0; run < 3; run++)
    void read({ chunks: slices(body, 50_000), contentLength: body.length }).value.then(() => done++)
  const perTurn: number[] = []
  while (done < 3) {
    const before = done
    await turn()
    if (done > before) perTurn.push(done - before)
  }
  t.same(perTurn, [1, 1, 1])
})

t.test('a large body whose client leaves before its turn is not read', async (t) => {
  const body = Buffer.from(JSON.stringify({ input: 'a'.repeat(300_000) }))
  const large = { contentType: 'application/json', contentLength: body.length, chunks: slices(body, 50_000) }
  const budget = budgetOf(10_000_000)
  let reads = 0
  const begin = (exchange: FakeExchange) =>
    readJson(exchange, { budget, maxBytes: 1_000_000, workspace: 'acme' }, () => (reads += 1))
  const leaving = new FakeExchange(large)
  const [first, second] = [begin(new FakeExchange(large)), begin(leaving)]
  await first
  leaving.leave()
  await t.rejects(second, { code: 'CLIENT_CLOSED' })
  t.equal(reads, 1)
})

t.test('refuses, and gives back what it held', async (t) => {
  const chunks = (text: string | Buffer) => [Buffer.from(text as string)]
  const cases: [string, Partial<FakeRequest>, { code: string; extra?: object }][] = [
    ['another type', { contentType: 'text/plain', chunks: chunks('{}') }, { code: 'UNSUPPORTED_MEDIA_TYPE' }],
    ['no type', { contentType: '', chunks: chunks('{}') }, { code: 'UNSUPPORTED_MEDIA_TYPE' }],
    [
      'a compressed body',
      { headers: { 'content-encoding': 'br' }, chunks: chunks('{}') },
      { code: 'UNSUPPORTED_MEDIA_TYPE' },
    ],
    ['no JSON', { chunks: chunks('{"input":') }, { code: 'INVALID_REQUEST' }],
    ['nothing', { chunks: chunks('') }, { code: 'INVALID_REQUEST' }],
    ['no UTF-8', { chunks: chunks(Buffer.from('"\xe4"', 'latin1')) }, { code: 'INVALID_REQUEST' }],
    [
      'a long body',
      { contentLength: null, chunks: slices(Buffer.from('"aaaaaaaaaa"'), 5) },
      {
        code: 'REQUEST_TOO_LARGE',
        extra: { details: { limit: 'max_request_body_bytes', limit_bytes: 10, received_bytes: 12 } },
      },
    ],
    [
      'a long body, as declared',
      { chunks: chunks('"aaaaaaaaaa"') },
      { code: 'REQUEST_TOO_LARGE', extra: { details: { declared_bytes: 12 } } },
    ],
    [
      'a client that leaves',
      { chunks: slices(Buffer.from('"aaaaaa"'), 2), breaks: { before: 2, error: 'leave' } },
      { code: 'CLIENT_CLOSED' },
    ],
  ]
  for (const [name, request, expected] of cases) {
    const run = read(request, { maxBytes: 10 })
    await t.rejects(run.value, expected, name)
    t.equal(run.budget.used, 0)
  }
  const exact = read({ chunks: slices(Buffer.from('"aaaaaaaa"'), 3), contentLength: null }, { maxBytes: 10 })
  t.equal(await exact.value, 'aaaaaaaa', 'a body of exactly the limit')
})

const bodyOf = (length: number) => slices(Buffer.from(JSON.stringify('x'.repeat(length))), 10_000)

t.test('serves small bodies when the budget is used up, and refuses large ones', async (t) => {
  const small = read({ chunks: bodyOf(100_000) }, { budget: budgetOf(0) })
  t.equal(((await small.value) as string).length, 100_000)
  const large = read({ chunks: bodyOf(400_000) }, { budget: budgetOf(1_000) })
  await t.rejects(large.value, { code: 'OVERLOADED' })
  t.equal(large.budget.used, 0)
})

t.test('a large body waits for memory, and takes nothing in before it has it', async (t) => {
  for (const contentLength of [undefined, null]) {
    const clock = new VirtualClock()
    const budget = createBudget(2_000_000, undefined, clock)
    budget.charge(1_900_000, 'other')
    const chunks = bodyOf(500_000)
    const run = read({ chunks, ...(contentLength === null ? { contentLength } : {}) }, { budget })
    while (budget.waiting === 0) await turn()
    await clock.advance(4_000)
    t.equal(budget.waiting, 1)
    t.ok(run.exchange.receivedBytes < 300_000, `${run.exchange.receivedBytes} bytes were taken in`)
    budget.refund(1_900_000, 'other')
    t.equal(((await run.value) as string).length, 500_000)
    t.equal(budget.used, 3 * run.exchange.receivedBytes)
    run.exchange.finish()
    t.equal(budget.used, 0)
  }
})

t.test('a body that needs more than there is gets all there is', async (t) => {
  const budget = createBudget(1_000_000)
  const { exchange, value } = read({ chunks: bodyOf(800_000) }, { budget })
  await value
  t.equal(budget.used, 1_000_000)
  exchange.finish()
  t.equal(budget.used, 0)
})

t.test('memory that does not come in 5 s is a 503', async (t) => {
  for (const contentLength of [undefined, null]) {
    const clock = new VirtualClock()
    const budget = createBudget(2_000_000, undefined, clock)
    budget.charge(1_900_000, 'other')
    const run = read(
      { chunks: bodyOf(500_000), ...(contentLength === null ? { contentLength } : {}) },
      { budget },
    )
    while (budget.waiting === 0) await turn()
    await clock.advance(4_999)
    t.equal(budget.waiting, 1)
    await Promise.all([t.rejects(run.value, { code: 'OVERLOADED' }), clock.advance(1)])
    t.equal(budget.used, 1_900_000)
  }
})

t.test('a client that leaves while its body waits takes its place along', async (t) => {
  const budget = createBudget(2_000_000)
  budget.charge(1_900_000, 'other')
  const run = read({ chunks: bodyOf(500_000) }, { budget })
  t.ok(await waitUntil(() => budget.waiting === 1))
  run.exchange.leave()
  await t.rejects(run.value, { code: 'CLIENT_CLOSED' })
  t.equal(budget.waiting, 0)
  t.equal(budget.used, 1_900_000)
})

t.test(
  'a small body is charged as it comes, a large one by what it has after it has given back',
  async (t) => {
    const small = createBudget(10_000_000)
    const first = read(
      { chunks: slices(Buffer.from(JSON.stringify('x'.repeat(200_000))), 10_000) },
      { budget: small },
    )
    while (first.exchange.receivedBytes < 30_000) await turn()
    t.ok(small.used < 3 * 90_000, `${small.used} are held of ${first.exchange.receivedBytes}`)
    t.equal(((await first.value) as string).length, 200_000)

    const budget = createBudget(2_000_000)
    const run = read({ chunks: bodyOf(600_000) }, { budget })
    while (run.exchange.receivedBytes < 30_000) await turn()
    t.ok(budget.used > 1_800_000, 'all of it is set aside')
    t.equal(budget.tryReserve(900_000, 'other'), true, 'another workspace takes it')
    t.ok(budget.used < 900_000 + 3 * 50_000, `${budget.used} are held`)
    t.ok(await waitUntil(() => run.exchange.paused), 'it waits for more when it has come far enough')
    budget.refund(900_000, 'other')
    t.equal(((await run.value) as string).length, 600_000)
    t.equal(budget.used, 3 * 600_002)
    run.exchange.finish()
    t.equal(budget.used, 0)
  },
)

t.test(
  'a body that crawls is ended for another workspace, and all of its memory is there at once',
  async (t) => {
    for (const contentLength of [1_000_000, 250_000, null]) {
      const budget = createBudget(400_000)
      const exchange = new FakeExchange({
        contentType: 'application/json',
        chunks: bodyOf(900_000).slice(0, 24),
        contentLength,
      })
      Object.defineProperty(exchange, 'bodyMs', { value: 60_000 })
      const held = readJson(exchange, { budget, maxBytes: 1_000_000, workspace: 'acme' }, (sent) => sent)
      held.catch(() => {})
      while (exchange.receivedBytes < 40_000) await turn()
      budget.charge(200_000, 'acme')
      t.equal(budget.tryReserve(190_000, 'other'), true, `${contentLength} bytes`)
      t.equal(budget.used, 390_000)
      await t.rejects(held, { code: 'OVERLOADED', extra: { retryAfterMs: 30_000 } })
      t.equal(budget.used, 390_000)
    }
  },
)
