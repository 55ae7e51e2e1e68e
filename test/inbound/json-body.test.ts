import t from 'tap'
import { readJson } from '../../src/inbound/json-body.ts'
import type { ByteBudget } from '../../src/schema/budget.ts'
import { slices } from '../support/bodies.ts'
import { FakeExchange, type FakeRequest } from '../support/fake-exchange.ts'

/** A budget of `limit` bytes that remembers the most that was held. */
function budgetOf(limit: number): ByteBudget & { readonly peak: number } {
  let used = 0
  let peak = 0
  const charge = (bytes: number) => {
    used += bytes
    peak = Math.max(peak, used)
  }
  return {
    limit,
    get used() {
      return used
    },
    get peak() {
      return peak
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
  return { exchange, budget, value: readJson(exchange, { budget, maxBytes }) }
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
        t.ok(run.budget.peak >= body.length, 'it was charged')
        t.equal(run.budget.used, 0, 'it is given back')
        t.notOk(run.exchange.paused)
      }
    }
  }
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

t.test('serves small bodies when the budget is used up, and refuses large ones', async (t) => {
  const body = (length: number) => slices(Buffer.from(JSON.stringify('x'.repeat(length))), 10_000)
  const small = read({ chunks: body(100_000) }, { budget: budgetOf(0) })
  t.equal(((await small.value) as string).length, 100_000)
  const large = read({ chunks: body(400_000) }, { budget: budgetOf(0) })
  await t.rejects(large.value, { code: 'OVERLOADED' })
  t.equal(large.budget.used, 0)
})
