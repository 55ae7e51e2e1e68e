import { test } from 'tap'
import { errorReply, GatewayError } from '../../../../src/errors.ts'
import {
  ApiError,
  adviceFor,
  apiErrorOf,
  toApiError,
  unreachable,
} from '../../../../src/routes/console/page/api-error.ts'

test('the envelope of an error is read as the server writes it', async (t) => {
  const thrown = new GatewayError('INVALID_REQUEST', 'the route has faults', {
    param: 'fields',
    details: { faults: ['/entries/0/model: there is no such model', 7] },
  })
  const { status, body } = errorReply(thrown, 'req_1')
  const error = apiErrorOf(status, JSON.stringify(body), null)
  t.match(error, {
    code: 'INVALID_REQUEST',
    status: 400,
    message: 'the route has faults',
    param: 'fields',
    requestId: 'req_1',
  })
  t.same(error.faults, ['/entries/0/model: there is no such model'])
})

test('what a proxy says in between is an error, too', async (t) => {
  for (const body of ['<html>502</html>', '', 'null', '{"error":"no"}', '[]']) {
    const error = apiErrorOf(502, body, 'req_header')
    t.match(error, { code: 'UNREADABLE', status: 502, requestId: 'req_header' }, body)
    t.match(error.message, '502')
    t.same(error.faults, [])
  }
  t.match(apiErrorOf(500, '{"error":{"code":7,"details":[]}}', null), {
    code: 'UNREADABLE',
    details: {},
    requestId: null,
  })
})

test('every error that somebody can do something about says what', async (t) => {
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

test('a fault of the page itself becomes one, too', async (t) => {
  const known = unreachable()
  t.equal(toApiError(known), known)
  t.match(toApiError(new TypeError('x is undefined')), { code: 'PAGE', message: 'x is undefined' })
  t.match(toApiError('text'), { code: 'PAGE', message: 'text' })
})
