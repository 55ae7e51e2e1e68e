import t from 'tap'
import { DEFAULT_LIMITS, type Limits } from '../../../src/contracts/limits.ts'
import { readQueueBody } from '../../../src/gateway/edge/queue-body.ts'
import { createBudget } from '../../../src/gateway/storage/budget.ts'
import { slices } from '../../support/bodies.ts'
import { FakeExchange, type FakeRequest } from '../../support/fake-exchange.ts'
import { refusalOf } from '../../support/gateway-rig.ts'

const MIB = 1024 * 1024

function read(request: Partial<FakeRequest>, limits: Partial<Limits> = {}) {
  const exchange = new FakeExchange({ contentType: 'application/json', chunks: [], ...request })
  const budget = createBudget(64 * MIB)
  let most = 0
  const watched = {
    get limit() {
      return budget.limit
    },
    get used() {
      most = Math.max(most, budget.used)
      return budget.used
    },
    charge(bytes: number, workspace?: string) {
      budget.charge(bytes, workspace)
      most = Math.max(most, budget.used)
    },
    tryReserve: (bytes: number, workspace?: string) => budget.tryReserve(bytes, workspace),
    refund: (bytes: number, workspace?: string) => budget.refund(bytes, workspace),
    async reserve(...given: Parameters<typeof budget.reserve>) {
      const granted = await budget.reserve(...given)
      most = Math.max(most, budget.used)
      return granted
    },
  }
  const body = readQueueBody(exchange, {
    budget: watched,
    limits: { ...DEFAULT_LIMITS, ...limits },
    workspace: 'acme',
  })
  return { exchange, budget, body, most: () => most }
}

const chunks = (text: string | Buffer, size = 1_000) => slices(Buffer.from(text as string), size)

t.test('the payload as it came, and what is around it as parsed', async (t) => {
  const payload = '{ "messages" : [{"content":"Gr\\u00fc\\u00dfe 🐦"}],"payload":{} }'
  const text = `\u{feff}{"endpoint":"chat","payload":${payload},"mode":null,"__proto__":{"a":1}}`
  for (const size of [1, 7, 1000]) {
    for (const contentLength of [Buffer.byteLength(text), null]) {
      const run = read({ chunks: chunks(text, size), contentLength })
      const { fields, payload: found, release } = await run.body
      t.equal(found.toString(), payload)
      t.same(Object.entries(fields), [
        ['endpoint', 'chat'],
        ['mode', null],
        ['__proto__', { a: 1 }],
      ])
      t.ok(run.budget.used >= 3 * Buffer.byteLength(text), 'it is charged while it is held')
      release()
      release()
      t.equal(run.budget.used, 0)
    }
  }
})

t.test('a refused body gives back what it held', async (t) => {
  const cases: [string, Partial<FakeRequest>, { code: string; extra?: object }][] = [
    ['another type', { contentType: 'text/json' }, { code: 'UNSUPPORTED_MEDIA_TYPE' }],
    ['no JSON', { chunks: chunks('{"payload":{}') }, { code: 'INVALID_REQUEST' }],
    ['no JSON after it', { chunks: chunks('{"payload":{}}}') }, { code: 'INVALID_REQUEST' }],
    ['two of them', { chunks: chunks('{"payload":{}}{"payload":{}}') }, { code: 'INVALID_REQUEST' }],
    ['an end within the payload', { chunks: chunks('{"payload":{"a":1') }, { code: 'INVALID_REQUEST' }],
    [
      'an end within a string',
      { chunks: chunks('{"payload":{},"endpoint":"ch') },
      { code: 'INVALID_REQUEST' },
    ],
    ['no object', { chunks: chunks('"payload"') }, { code: 'INVALID_REQUEST' }],
    ['nothing', { chunks: chunks('') }, { code: 'INVALID_REQUEST' }],
    [
      'no payload',
      { chunks: chunks('{"endpoint":"chat"}') },
      { code: 'INVALID_REQUEST', extra: { param: 'payload' } },
    ],
    [
      'a payload deeper down',
      { chunks: chunks('{"a":{"payload":{}}}') },
      { code: 'INVALID_REQUEST', extra: { param: 'payload' } },
    ],
    [
      'no UTF-8 around it',
      { chunks: [Buffer.from('{"payload":{},"a":"\xe4"}', 'latin1')] },
      { code: 'INVALID_REQUEST' },
    ],
    [
      'an abort',
      { chunks: chunks('{"payload":{}}', 3), breaks: { before: 2, error: 'leave' } },
      { code: 'CLIENT_CLOSED' },
    ],
  ]
  for (const [what, request, expected] of cases) {
    const run = read(request)
    t.match(await refusalOf(run.body), expected, what)
    t.equal(run.budget.used, 0, what)
  }
})

t.test('what is declared reserves no more than what may come', async (t) => {
  const limits = { queue_max_payload_bytes: MIB }
  const endless = Buffer.from(`{"payload":{"a":"${'x'.repeat(3 * MIB)}`)
  for (const contentLength of [50 * MIB, null]) {
    const run = read({ chunks: slices(endless, 64 * 1024), contentLength }, limits)
    t.match(await refusalOf(run.body), {
      code: 'REQUEST_TOO_LARGE',
      extra: { details: { limit: 'queue_max_payload_bytes', limit_bytes: MIB } },
    })
    t.ok(run.most() > 0 && run.most() <= 8 * MIB, `${run.most()} bytes at most`)
    t.equal(run.budget.used, 0)
    t.ok(run.exchange.receivedBytes < 2 * MIB, 'it is not read any further')
  }
})
