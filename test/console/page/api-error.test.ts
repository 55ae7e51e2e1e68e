import { test } from 'tap'
import { ApiError, adviceFor, apiErrorOf, toApiError, unreachable } from '../../../src/console/page/api.ts'
import { errorReply, GatewayError } from '../../../src/contracts/errors.ts'

test('the envelope of an error is read as the server writes it', async (t) => {
  const thrown = new GatewayError('INVALID_REQUEST', 'the route has issues', {
    param: 'fields',
    details: { issues: ['/entries/0/model: there is no such model', 7] },
  })
  const { status, body } = errorReply(thrown, 'req_1')
  const error = apiErrorOf(status, JSON.stringify(body), null)
  t.match(error, {
    code: 'INVALID_REQUEST',
    status: 400,
    message: 'the route has issues',
    param: 'fields',
    requestId: 'req_1',
  })
  t.same(error.issues, ['/entries/0/model: there is no such model'])
})

test('what a proxy says in between is an error, too', async (t) => {
  for (const body of ['<html>502</html>', '', 'null', '{"error":"no"}', '[]']) {
    const error = apiErrorOf(502, body, 'req_header')
    t.match(error, { code: 'UNREADABLE', status: 502, requestId: 'req_header' }, body)
    t.match(error.message, '502')
    t.same(error.issues, [])
  }
  t.match(apiErrorOf(500, '{"error":{"code":7,"details":[]}}', null), {
    code: 'UNREADABLE',
    details: {},
    requestId: null,
  })
})

test('every error with a remedy names it', async (t) => {
  const codes = [
    'DEPENDENCY_UNAVAILABLE',
    'PERMISSION_DENIED',
    'NOT_FOUND',
    'RATE_LIMITED',
    'INTERNAL',
  ] as const
  for (const code of codes) {
    const { status, body } = errorReply(new GatewayError(code), 'req_1')
    t.type(adviceFor(apiErrorOf(status, JSON.stringify(body), null)), 'string', code)
  }
  t.match(adviceFor(unreachable()), 'connection')
  t.equal(adviceFor(new ApiError('no', { code: 'INVALID_REQUEST', status: 400 })), null)
})

test('a refusal for too many requests says when to come back, once', async (t) => {
  const { status, body } = errorReply(new GatewayError('RATE_LIMITED'), 'req_1')
  const refused = (retryAfter: string | null) => apiErrorOf(status, JSON.stringify(body), null, retryAfter)
  t.equal(adviceFor(refused('12'), true), 'Retrying in 12 s…')
  t.equal(adviceFor(refused('12')), 'Try again in 12 s.')
  t.equal(refused('0').retryAfterMs, 1_000, 'and never at once')
  t.equal(refused('999999999').retryAfterMs, 3_600_000)
  for (const none of [null, 'Wed, 21 Oct 2026 07:28:00 GMT', '-1', '1.5'])
    t.match(adviceFor(refused(none), true), 'Wait a moment')
  t.equal(apiErrorOf(503, '', null, '12').retryAfterMs, null, 'only of what is refused for its rate')
})

test('a fault of the page itself becomes one, too', async (t) => {
  const known = unreachable()
  t.equal(toApiError(known), known)
  t.match(toApiError(new TypeError('x is undefined')), { code: 'PAGE', message: 'x is undefined' })
  t.match(toApiError('text'), { code: 'PAGE', message: 'text' })
})
