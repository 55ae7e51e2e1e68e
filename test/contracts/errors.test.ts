import t from 'tap'
import type { ErrorCode } from '../../src/contracts/errors.ts'
import { ERRORS, errorReply, GatewayError, toGatewayError } from '../../src/contracts/errors.ts'

t.test('the envelope of every code', async (t) => {
  for (const code of Object.keys(ERRORS) as ErrorCode[]) {
    const { status, body, headers } = errorReply(new GatewayError(code), 'req_1')
    const definition = ERRORS[code]
    t.equal(status, definition.status)
    t.same(body.error, {
      code,
      category: definition.category,
      retryable: definition.retryable,
      message: definition.message,
      param: null,
      type: definition.category,
      request_id: 'req_1',
      details: {},
    })
    t.equal(headers['x-should-retry'], String(definition.retryable))
    const waits = definition.retryable && [409, 429, 503].includes(definition.status)
    t.equal('retry-after' in headers, waits, `${code}: Retry-After`)
  }
})

t.test('the signals to try again agree, whatever the thrower gives', async (t) => {
  for (const code of Object.keys(ERRORS) as ErrorCode[]) {
    const { retryable } = ERRORS[code]
    const headers = { allow: 'GET', 'x-should-retry': String(!retryable) }
    const thrown = new GatewayError(code, undefined, { retryAfterMs: 7_000, headers })
    const reply = errorReply(thrown, 'req_1')
    t.equal(reply.body.error.retryable, retryable, code)
    t.equal(reply.headers['x-should-retry'], String(retryable), code)
    t.equal(
      reply.headers['retry-after'],
      retryable ? '7' : undefined,
      `${code}: a time is told where it helps`,
    )
    t.match(reply.headers, { allow: 'GET' })
  }
  t.match(ERRORS, {
    NO_HEALTHY_PROVIDER: { status: 503, category: 'routing', retryable: false },
    PROVIDERS_COOLING_DOWN: { status: 503, category: 'upstream', retryable: true },
  })
})

t.test('Retry-After is in whole seconds, rounded up, at least one', async (t) => {
  const after = (retryAfterMs: number) =>
    errorReply(new GatewayError('RATE_LIMITED', undefined, { retryAfterMs }), 'req_1').headers['retry-after']
  t.same([after(0), after(1), after(1_000), after(1_001)], ['1', '1', '1', '2'])
})

t.test('what is not ours is INTERNAL, with nothing of it in the answer', async (t) => {
  const error = toGatewayError(new Error('password hunter2'))
  t.equal(error.code, 'INTERNAL')
  t.match(error.cause, { message: 'password hunter2' }, 'the log has it')
  t.notMatch(JSON.stringify(errorReply(error, 'req_1')), 'hunter2')
  const known = new GatewayError('NOT_FOUND')
  t.equal(toGatewayError(known), known)
})
