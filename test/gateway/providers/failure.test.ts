import t from 'tap'
import { classify, refused, unusable } from '../../../src/gateway/providers/failure.ts'
import { fixture, reply } from '../../support/replies.ts'

interface ErrorFixture {
  /** Beside the error where the fixture has no table of its own here. */
  readonly kind?: string
  readonly name: string
  readonly status: number
  readonly headers?: Record<string, string>
  readonly body: unknown
}

const KINDS: Readonly<Record<string, string>> = {
  'bad file': 'caller',
  'bad model name': 'model',
  'content policy': 'content',
  'billing hard limit': 'credential',
  'bad key': 'credential',
  payment: 'credential',
  country: 'credential',
  'model outside the project': 'model',
  'no such model': 'model',
  'no such voice': 'caller',
  'no such path': 'model',
  timeout: 'server',
  conflict: 'server',
  'too large': 'limit',
  'media type': 'caller',
  validation: 'caller',
  rate: 'rate',
  'slow down': 'rate',
  quota: 'credential',
  balance: 'credential',
  'project spend limit': 'credential',
  'organization spend limit': 'credential',
  'organization usage limit': 'credential',
  'flex capacity': 'rate',
  server: 'server',
  'bad gateway': 'server',
  overloaded: 'rate',
  'gateway timeout': 'server',
  redirect: 'server',
}

t.test('each documented error has its kind', async (t) => {
  const errors = (await fixture('openai/errors.json')) as ErrorFixture[]
  t.same(errors.map(({ name }) => name).sort(), Object.keys(KINDS).sort(), 'every fixture has a row')
  for (const { name, status, headers, body } of errors) {
    const failure = classify(reply(body, status, headers))
    t.equal(failure.kind, KINDS[name], name)
    t.equal(failure.status, status)
    const said = failure.providerMessage ?? ''
    t.notOk(said !== '' && failure.reason.includes(said), 'the reason is ours, not the provider’s')
  }
})

t.test('each documented error of ElevenLabs and Deepgram has its kind', async (t) => {
  for (const provider of ['elevenlabs', 'deepgram']) {
    const errors = (await fixture(`${provider}/errors.json`)) as ErrorFixture[]
    for (const { name, status, body, kind } of errors) {
      t.match(classify(reply(body, status)), { kind, status }, `${provider}: ${name}`)
    }
  }
})

function google(code: number, status: string, ...details: unknown[]) {
  return { error: { code, message: 'as the provider says', status, details } }
}

function anthropic(type: string, details?: unknown) {
  const request_id = 'req_011CSHoEeqs5C35K2UUqR7Fy'
  return { type: 'error', error: { type, message: 'as the provider says', details }, request_id }
}

const keyInfo = (reason: string) => ({
  '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
  reason,
  domain: 'googleapis.com',
  metadata: { service: 'generativelanguage.googleapis.com' },
})
const badField = {
  '@type': 'type.googleapis.com/google.rpc.BadRequest',
  fieldViolations: [{ field: 'contents', description: 'contents is not specified' }],
}

t.test('errors of the others', async (t) => {
  const rows: [string, number, unknown, string][] = [
    ['groq, flex capacity', 498, { error: { message: 'm', type: 'capacity_exceeded' } }, 'rate'],
    ['groq, retired model', 400, { error: { message: 'm', code: 'model_decommissioned' } }, 'model'],
    ['groq, dependency', 424, { error: { message: 'm', type: 'api_error' } }, 'server'],
    ['groq, cancelled', 499, { error: { message: 'm' } }, 'server'],
    ['groq, too large', 413, { error: { message: 'm', type: 'invalid_request_error' } }, 'limit'],

    ['assemblyai, request', 400, { error: 'Invalid endpoint schema' }, 'caller'],
    ['assemblyai, key', 401, { error: 'Authentication error, API token missing/invalid' }, 'credential'],
    ['assemblyai, rights', 403, { error: 'Cannot access uploaded file' }, 'credential'],
    ['assemblyai, path', 404, { error: 'Not found' }, 'model'],
    ['assemblyai, rate', 429, { error: 'Too Many Requests' }, 'rate'],
    ['assemblyai, server', 500, { error: 'Internal server error' }, 'server'],
    ['assemblyai, gateway', 504, { error: 'Gateway timeout' }, 'server'],
    ['assemblyai sync, audio', 400, { error_code: 'bad_audio', message: 'm' }, 'caller'],
    ['assemblyai sync, size', 413, { error_code: 'audio_too_large', message: 'm' }, 'limit'],
    ['assemblyai sync, type', 415, { detail: 'Unsupported media type' }, 'caller'],
    ['assemblyai sync, load', 503, { error_code: 'capacity_exceeded', message: 'm' }, 'rate'],
    ['assemblyai sync, time', 504, { error_code: 'inference_timeout', message: 'm' }, 'server'],

    ['google, argument', 400, google(400, 'INVALID_ARGUMENT', badField), 'caller'],
    ['google, bad key', 400, google(400, 'INVALID_ARGUMENT', keyInfo('API_KEY_INVALID')), 'credential'],
    [
      'google, bad key in an array',
      400,
      [google(400, 'INVALID_ARGUMENT', keyInfo('API_KEY_INVALID'))],
      'credential',
    ],
    ['google, region or billing', 400, google(400, 'FAILED_PRECONDITION'), 'credential'],
    ['google, no key', 401, google(401, 'UNAUTHENTICATED'), 'credential'],
    ['google, billing', 402, google(402, 'PAYMENT_REQUIRED'), 'credential'],
    ['google, rights', 403, google(403, 'PERMISSION_DENIED', keyInfo('SERVICE_DISABLED')), 'credential'],
    ['google, model', 404, google(404, 'NOT_FOUND'), 'model'],
    ['google, rate', 429, google(429, 'RESOURCE_EXHAUSTED'), 'rate'],
    ['google, rate in a stream', 200, google(429, 'RESOURCE_EXHAUSTED'), 'rate'],
    ['google, server', 500, google(500, 'INTERNAL'), 'server'],
    ['google, method', 501, google(501, 'UNIMPLEMENTED'), 'model'],
    ['google, load', 503, google(503, 'UNAVAILABLE'), 'rate'],
    ['google, time', 504, google(504, 'DEADLINE_EXCEEDED'), 'server'],
    ['google, interactions', 429, { error: { code: 'rate_limit_exceeded', message: 'm' } }, 'rate'],

    ['anthropic, request', 400, anthropic('invalid_request_error'), 'caller'],
    [
      'anthropic, balance',
      400,
      anthropic('invalid_request_error', { error_code: 'credit_balance_exhausted' }),
      'credential',
    ],
    ['anthropic, key', 401, anthropic('authentication_error'), 'credential'],
    ['anthropic, billing', 402, anthropic('billing_error'), 'credential'],
    ['anthropic, rights', 403, anthropic('permission_error'), 'credential'],
    ['anthropic, model', 404, anthropic('not_found_error'), 'model'],
    ['anthropic, conflict', 409, anthropic('conflict_error'), 'server'],
    ['anthropic, size', 413, anthropic('request_too_large'), 'limit'],
    ['anthropic, rate', 429, anthropic('rate_limit_error'), 'rate'],
    ['anthropic, server', 500, anthropic('api_error'), 'server'],
    ['anthropic, time', 504, anthropic('timeout_error'), 'server'],
    ['anthropic, load', 529, anthropic('overloaded_error'), 'rate'],
    ['anthropic, load in a stream', 200, anthropic('overloaded_error'), 'rate'],

    ['runway, input', 400, { error: 'Validation of body failed', issues: [] }, 'caller'],
    ['runway, key', 401, { error: 'Unauthorized' }, 'credential'],
    ['runway, rate', 429, { error: 'Too many requests' }, 'rate'],
    ['luma, input', 400, { detail: 'prompt is required' }, 'caller'],
    ['replicate, balance', 402, { title: 'Insufficient credit', detail: 'd', status: 402 }, 'credential'],
    ['replicate, model', 404, { title: 'Not found', detail: 'd', status: 404 }, 'model'],
    ['replicate, input', 422, { title: 'Input validation failed', detail: 'd', status: 422 }, 'caller'],
    ['fal, input', 422, { detail: [{ loc: ['body', 'prompt'], msg: 'm', type: 'missing' }] }, 'caller'],
    [
      'fal, content',
      422,
      { detail: [{ loc: ['body', 'prompt'], msg: 'm', type: 'content_policy_violation' }] },
      'content',
    ],
    ['fal, time', 504, { detail: 'Request timed out' }, 'server'],
  ]
  for (const [name, status, body, kind] of rows) {
    t.match(classify(reply(body, status)), { kind, status }, name)
  }
})

t.test('bodies that are none of these fall back to the status', async (t) => {
  const bodies = [
    '',
    'null',
    '[]',
    '[[]]',
    '{',
    { error: null },
    { error: { code: {} } },
    { detail: [null, 3, 'x'] },
  ]
  for (const body of bodies) {
    t.equal(classify(reply(body, 418)).kind, 'caller', JSON.stringify(body))
    t.equal(classify(reply(body, 429)).kind, 'rate', JSON.stringify(body))
    t.equal(classify(reply(body, 500)).kind, 'server', JSON.stringify(body))
  }
  // Prose decides nothing, whatever words it holds.
  t.equal(classify(reply({ error: { message: 'invalid_api_key quota_exceeded' } }, 400)).kind, 'caller')
  t.equal(classify(reply({ error: { code: 'constructor' } }, 400)).kind, 'caller')
})

t.test('failures that the gateway finds itself', async (t) => {
  t.same(refused('the model has no channels'), {
    kind: 'model',
    status: null,
    reason: 'the model has no channels',
    retryAfterMs: null,
    providerMessage: null,
    rejection: { reason: 'unsupported_option', param: null },
  })
  t.match(refused('keyterms: the provider takes up to 1000').rejection, { param: 'keyterms' })
  t.match(refused('audio.format: the provider makes wav').rejection, { param: 'audio' })
  t.match(unusable({ status: 200 }, 'no text'), { kind: 'server', status: 200, reason: 'no text' })
})

t.test('what the provider said is kept for the log, and cut to 2 KiB between characters', async (t) => {
  t.equal(classify(reply({ error: { message: 'Slow.' } }, 429)).providerMessage, 'Slow.')
  t.equal(classify(reply({ error: 'no such thing' }, 500)).providerMessage, 'no such thing')
  t.equal(classify(reply({ detail: 'Not Found' }, 404)).providerMessage, 'Not Found')
  t.equal(classify(reply({ message: 'bye' }, 500)).providerMessage, 'bye')
  const echoed = { error: { message: 'Incorrect API key: sk-secret', type: 'auth', code: 'invalid_api_key' } }
  t.equal(classify(reply(echoed, 401)).providerMessage, 'invalid_api_key, auth', 'a key may be in the prose')
  t.equal(classify(reply('bad key sk-secret', 401)).providerMessage, null)
  const keyed = google(400, 'INVALID_ARGUMENT', keyInfo('API_KEY_INVALID'))
  t.equal(classify(reply(keyed, 400)).providerMessage, 'API_KEY_INVALID, INVALID_ARGUMENT')
  t.equal(classify(reply({ err_code: 'X', err_msg: 'Slow.' }, 500)).providerMessage, 'Slow.')
  const invalid = { detail: [{ loc: ['body'], msg: 'No text.', type: 'missing' }] }
  t.equal(classify(reply(invalid, 422)).providerMessage, 'No text.')
  t.equal(classify(reply('plain words', 500)).providerMessage, 'plain words')
  t.equal(classify(reply('', 500)).providerMessage, null)
  t.equal(classify(reply('[1]', 500)).providerMessage, '[1]')
  const long = classify(reply({ error: { message: `x${'é'.repeat(3000)}` } }, 500)).providerMessage ?? ''
  t.ok(Buffer.byteLength(long) <= 2048 && Buffer.byteLength(long) > 2040)
  t.notMatch(long, /\ufffd/)
  t.equal(classify(reply('x'.repeat(100_000), 500)).providerMessage, null, 'a flood is not read at all')
})

t.test('the wait that an answer asks for', async (t) => {
  const info = (retryDelay: unknown) => ({ '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay })
  const rows: [unknown, Record<string, string>, number | null][] = [
    [google(429, 'RESOURCE_EXHAUSTED', badField, info('30s')), {}, 30_000],
    [[google(429, 'RESOURCE_EXHAUSTED', info('0.5s'))], {}, 500],
    [google(429, 'RESOURCE_EXHAUSTED', info('30s')), { 'retry-after': '7' }, 7000],
    [google(429, 'RESOURCE_EXHAUSTED', info('soon')), {}, null],
    [google(429, 'RESOURCE_EXHAUSTED', info(30)), {}, null],
    [{ detail: { status: 'system_busy' } }, { 'retry-after': '2' }, 2000],
  ]
  for (const [body, headers, expected] of rows) {
    t.equal(classify(reply(body, 429, headers)).retryAfterMs, expected, JSON.stringify(body))
  }
})
