import type { IncomingMessage, ServerResponse } from 'node:http'
import t, { type Test } from 'tap'
import { errorReply } from '../../../src/contracts/errors.ts'
import type { Calls, OperationName } from '../../../src/contracts/operations.ts'
import { REJECTION_REASONS, type RejectionReason } from '../../../src/contracts/upstream.ts'
import { createCircuitBreakers } from '../../../src/gateway/call/select/health.ts'
import { speechCall, transcriptionCall } from '../../support/call.ts'
import { principal } from '../../support/catalog.ts'
import type { Upstream } from '../../support/gateway-rig.ts'
import { chatCall, entryAt, gatewayRig, refusalOf, runWhole, upstream } from '../../support/gateway-rig.ts'
import { memoryAudio } from '../../support/memory-audio.ts'

t.setTimeout(120_000)

/** Stands in every message of a provider, and must never come back. */
const CANARY = 'canary-7f3a'

/**
 * What becomes of an error: `ill` goes on to the next entry and counts against the one that told it; a reason alone
 * is the caller's and ends the call; `over` and a reason goes on too, counts against nobody, and is the caller's
 * where no entry is left.
 */
type Fate = 'ill' | RejectionReason | `over ${RejectionReason}`

interface Case {
  readonly kind: string
  readonly operation: OperationName
  readonly name: string
  readonly status: number
  readonly body: unknown
  readonly fate: Fate
  readonly param?: string | null
}

type Row = readonly [name: string, status: number, body: unknown, fate: Fate, param?: string]

const rowsOf = (kind: string, operation: OperationName, rows: readonly Row[]): Case[] =>
  rows.map(([name, status, body, fate, param]) => ({
    kind,
    operation,
    name,
    status,
    body,
    fate,
    ...(param === undefined ? {} : { param }),
  }))

/** OpenAI's shape, which Groq has too. */
const openai = (message: string, code: string | null = null, param: string | null = null, type = 'e') => ({
  error: { message: `${message} ${CANARY}`, type, param, code },
})
const OPENAI: readonly Row[] = [
  ['auth', 401, openai('Incorrect API key provided: sk-abc', 'invalid_api_key'), 'ill'],
  ['quota', 429, openai('You exceeded your current quota', 'insufficient_quota'), 'ill'],
  ['billing', 400, openai('Billing hard limit has been reached', 'billing_hard_limit_reached'), 'ill'],
  ['deactivated', 400, openai('The account is deactivated', 'account_deactivated'), 'ill'],
  ['model', 404, openai('The model does not exist', 'model_not_found'), 'ill'],
  ['model as 400', 400, openai('invalid model', null, 'model'), 'ill'],
  ['rate', 429, openai('Rate limit reached', 'rate_limit_exceeded'), 'ill'],
  ['call of the model', 400, openai('Failed to call a function.', 'tool_use_failed'), 'over other'],
  ['overload', 503, openai('overloaded', 'server_is_overloaded'), 'ill'],
  ['server', 500, openai('The server had an error'), 'ill'],
  ['gateway', 502, '<html>', 'ill'],
  ['size', 413, openai('Maximum content size limit (26214400) exceeded'), 'over too_large'],
  ['long address', 414, '', 'over too_large'],
  [
    'context',
    400,
    openai("This model's maximum context length is 8", 'context_length_exceeded'),
    'over context_too_long',
  ],
  [
    'context without a code',
    400,
    openai("This model's maximum context length is 8192 tokens."),
    'over context_too_long',
  ],
  ['long text', 400, openai('too long', 'string_above_max_length', 'input'), 'over too_long', 'input'],
  ['content policy', 400, openai('rejected', 'content_policy_violation'), 'content_policy'],
  ['moderation', 400, openai('rejected', 'moderation_blocked'), 'content_policy'],
  ['picture', 400, openai('not a picture', 'invalid_image_format'), 'bad_image'],
  [
    'parameter',
    400,
    openai('Unsupported parameter', 'unsupported_parameter', 'stop'),
    'over unsupported_option',
    'stop',
  ],
  [
    'value',
    400,
    openai('Unsupported value', 'unsupported_value', 'temperature'),
    'over unsupported_option',
    'temperature',
  ],
  [
    'tier',
    400,
    openai('Invalid service_tier', 'invalid_service_tier', 'service_tier'),
    'over unsupported_option',
  ],
  [
    'value of no model',
    400,
    openai('too many', 'invalid_value', 'max_completion_tokens'),
    'unsupported_option',
    'max_tokens',
  ],
  ['field of ours', 400, openai('bad', 'invalid_value', `${CANARY}.x`), 'other'],
  ['nothing said', 400, '', 'other'],
]

const OPENAI_HEARING: readonly Row[] = [
  [
    'chunking',
    400,
    openai('chunking_strategy is required for diarization models', 'invalid_value', 'chunking_strategy'),
    'over unsupported_option',
  ],
  [
    'long audio',
    400,
    openai(
      'audio duration 1500.1 seconds is longer than 1400 seconds which is the maximum for this model',
      'invalid_value',
    ),
    'over too_long',
    'audio',
  ],
  [
    'bad audio',
    400,
    openai('Audio file might be corrupted or unsupported', 'invalid_value', 'file'),
    'bad_audio',
    'audio',
  ],
  ['short audio', 400, openai('Audio file is too short.', 'audio_too_short', 'file'), 'bad_audio', 'audio'],
  ['format', 400, openai("Invalid file format. Supported formats: ['flac']"), 'unsupported_format'],
  ['media type', 415, openai('Unsupported content type', 'unsupported_content_type'), 'unsupported_format'],
]

const OPENROUTER: readonly Row[] = [
  [
    'content policy',
    403,
    {
      error: {
        ...{ code: 403, message: `openai/gpt-x requires moderation. ${CANARY}` },
        metadata: { reasons: ['violence'], flagged_input: 'x', provider_name: 'OpenAI', model_slug: 'x' },
      },
    },
    'content_policy',
  ],
]

const GROQ: readonly Row[] = [
  ['auth', 401, openai('Invalid API Key', 'invalid_api_key'), 'ill'],
  ['spend limit', 400, openai('API access is blocked', 'blocked_api_access'), 'ill'],
  ['restricted', 400, openai('Organization has been restricted.', 'organization_restricted'), 'ill'],
  ['terms', 400, openai('The model requires terms acceptance.', 'model_terms_required'), 'ill'],
  ['model', 400, openai('decommissioned', 'model_decommissioned'), 'ill'],
  ['missing model', 404, openai('The model does not exist', 'model_not_found'), 'ill'],
  ['rate', 429, openai('Rate limit reached', 'rate_limit_exceeded'), 'ill'],
  [
    'request over the rate',
    413,
    openai('Request too large for model', 'rate_limit_exceeded'),
    'over too_large',
  ],
  ['overload', 498, openai('Flex tier capacity exceeded', null, null, 'capacity_exceeded'), 'ill'],
  ['server', 500, openai('Internal Server Error'), 'ill'],
  ['dependency', 424, openai('failed'), 'ill'],
  ['size', 413, openai('Request Entity Too Large'), 'over too_large'],
  [
    'context',
    400,
    openai('Please reduce the length of the messages', 'context_length_exceeded'),
    'over context_too_long',
  ],
  [
    'schema',
    400,
    openai(
      'This model does not support response format `json_schema`. See',
      null,
      null,
      'invalid_request_error',
    ),
    'over unsupported_option',
    'response_schema',
  ],
  ['option', 400, openai('bad', null, 'tools'), 'unsupported_option', 'tools'],
  ['nothing known', 400, openai('property is missing'), 'other'],
]

const anthropicError = (type: string, message: string, error_code?: string) => ({
  type: 'error',
  error: {
    type,
    message: `${message} ${CANARY}`,
    ...(error_code === undefined ? {} : { details: { error_code } }),
  },
})
const INVALID = 'invalid_request_error'
const ANTHROPIC: readonly Row[] = [
  ['auth', 401, anthropicError('authentication_error', 'invalid x-api-key'), 'ill'],
  ['rights', 403, anthropicError('permission_error', 'no'), 'ill'],
  ['billing', 402, anthropicError('billing_error', 'no'), 'ill'],
  [
    'credit',
    400,
    anthropicError(INVALID, 'Your credit balance is too low to access the Anthropic API.'),
    'ill',
  ],
  ...[
    ...['credit_balance_exhausted', 'organization_on_hold', 'cmek_key_disabled', 'cmek_key_network_blocked'],
    ...['organization_type_not_supported', 'parent_organization_required', 'ramp_limit_exceeded'],
  ].map((code): Row => [code, 400, anthropicError(INVALID, 'no', code), 'ill']),
  ['model', 404, anthropicError('not_found_error', 'model: claude-9'), 'ill'],
  ['rate', 429, anthropicError('rate_limit_error', 'slow'), 'ill'],
  ['overload', 529, anthropicError('overloaded_error', 'Overloaded'), 'ill'],
  ['server', 500, anthropicError('api_error', 'Internal server error'), 'ill'],
  ['size', 413, anthropicError('request_too_large', 'Request exceeds the maximum size'), 'over too_large'],
  [
    'context',
    400,
    anthropicError(INVALID, 'prompt is too long: 210000 tokens > 200000 maximum'),
    'over context_too_long',
  ],
  [
    'context with the answer',
    400,
    anthropicError(INVALID, 'input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000'),
    'over context_too_long',
  ],
  ['request', 400, anthropicError(INVALID, 'messages: roles must alternate'), 'other'],
]

const googleError = (code: number, status: string, message: string, ...details: unknown[]) => ({
  error: { code, message: `${message} ${CANARY}`, status, details },
})
const reasonOf = (reason: string) => ({ '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason })
const GEMINI: readonly Row[] = [
  [
    'auth',
    400,
    googleError(400, 'INVALID_ARGUMENT', 'API key not valid.', reasonOf('API_KEY_INVALID')),
    'ill',
  ],
  ['auth in an array', 400, [googleError(400, 'INVALID_ARGUMENT', 'no', reasonOf('API_KEY_INVALID'))], 'ill'],
  ['quota', 429, googleError(429, 'RESOURCE_EXHAUSTED', 'You exceeded your current quota'), 'ill'],
  ['billing', 400, googleError(400, 'FAILED_PRECONDITION', 'enable billing'), 'ill'],
  ['rights', 403, googleError(403, 'PERMISSION_DENIED', 'no', reasonOf('SERVICE_DISABLED')), 'ill'],
  ['model', 404, googleError(404, 'NOT_FOUND', 'models/gemini-9 is not found'), 'ill'],
  ['overload', 503, googleError(503, 'UNAVAILABLE', 'The model is overloaded.'), 'ill'],
  ['server', 500, googleError(500, 'INTERNAL', 'An internal error has occurred.'), 'ill'],
  ['time', 504, googleError(504, 'DEADLINE_EXCEEDED', 'late'), 'ill'],
  [
    'size',
    400,
    googleError(400, 'INVALID_ARGUMENT', 'Request payload size exceeds the limit: 20971520 bytes.'),
    'over too_large',
  ],
  ['size by its status', 413, '', 'over too_large'],
  [
    'context',
    400,
    googleError(
      400,
      'INVALID_ARGUMENT',
      'The input token count (1189842) exceeds the maximum number of tokens allowed (1048576).',
    ),
    'over context_too_long',
  ],
  ['content policy', 200, { promptFeedback: { blockReason: 'SAFETY' } }, 'content_policy'],
  ['argument', 400, googleError(400, 'INVALID_ARGUMENT', 'contents is not specified'), 'other'],
]

const elevenError = (status: string, message: string) => ({
  detail: { status, message: `${message} ${CANARY}` },
})
const ELEVENLABS: readonly Row[] = [
  ['auth', 401, elevenError('invalid_api_key', 'Invalid API key'), 'ill'],
  ['rights', 401, elevenError('missing_permissions', 'no'), 'ill'],
  ['quota', 401, elevenError('quota_exceeded', 'This request exceeds your quota'), 'ill'],
  ['billing', 402, elevenError('payment_required', 'no'), 'ill'],
  [
    'voice of a plan',
    402,
    elevenError('payment_required', 'Free users cannot use library voices via the API.'),
    'over unknown_voice',
    'voice',
  ],
  ['model', 400, elevenError('model_not_found', 'no'), 'ill'],
  ['rate', 429, elevenError('too_many_concurrent_requests', 'no'), 'ill'],
  ['overload', 429, elevenError('system_busy', 'no'), 'ill'],
  ['server', 500, elevenError('internal_server_error', 'no'), 'ill'],
  ['size', 413, '', 'over too_large'],
  ['long text', 400, elevenError('max_character_limit_exceeded', 'no'), 'over too_long'],
  ['long text as 401', 401, elevenError('max_character_limit_exceeded', 'no'), 'over too_long'],
  ['voice', 400, elevenError('voice_not_found', 'A voice was not found.'), 'unknown_voice', 'voice'],
  [
    'voice by its field',
    404,
    { detail: { type: 'not_found', message: CANARY, param: 'voice_id' } },
    'unknown_voice',
    'voice',
  ],
  [
    'option',
    422,
    { detail: [{ loc: ['body', 'voice_settings', 'speed'], msg: CANARY, type: 'less_than_equal' }] },
    'unsupported_option',
    'speed',
  ],
  ['nothing known', 400, elevenError('bad_request', 'no'), 'other'],
]
const ELEVENLABS_HEARING: readonly Row[] = [
  [
    'bad audio',
    422,
    { detail: [{ loc: ['body', 'file'], msg: CANARY, type: 'value_error' }] },
    'bad_audio',
    'audio',
  ],
  [
    'language',
    422,
    { detail: [{ loc: ['body', 'language_code'], msg: CANARY, type: 'e' }] },
    'unsupported_option',
    'language',
  ],
]

const deepgramError = (err_code: string, err_msg: string) => ({ err_code, err_msg: `${err_msg} ${CANARY}` })
const DEEPGRAM: readonly Row[] = [
  ['auth', 401, deepgramError('INVALID_AUTH', 'Invalid credentials.'), 'ill'],
  ['rights', 401, deepgramError('INSUFFICIENT_PERMISSIONS', 'no'), 'ill'],
  ['billing', 402, deepgramError('ASR_PAYMENT_REQUIRED', 'no credits'), 'ill'],
  ['model', 400, deepgramError('Bad Request', 'No such model/language/tier combination found.'), 'ill'],
  [
    'model, more at length',
    400,
    deepgramError('Bad Request', 'Bad Request: No such model/language/tier combination found.'),
    'ill',
  ],
  ['model outside the project', 403, deepgramError('INSUFFICIENT_PERMISSIONS', 'no'), 'ill'],
  ['rate', 429, deepgramError('TOO_MANY_REQUESTS', 'Too many requests.'), 'ill'],
  ['overload', 503, { error_code: 'Service Unavailable', err_msg: CANARY }, 'ill'],
  ['server', 500, deepgramError('INTERNAL_SERVER_ERROR', 'no'), 'ill'],
  ['time', 504, deepgramError('GATEWAY_TIMEOUT', 'no'), 'ill'],
  ['size', 413, deepgramError('Payload Too Large', 'no'), 'over too_large'],
  ['long address', 414, '', 'over too_large'],
  [
    'keyterms',
    400,
    `Keyterm limit exceeded. The maximum number of tokens is 500. ${CANARY}`,
    'over unsupported_option',
    'keyterms',
  ],
  [
    'bad audio',
    400,
    deepgramError('Bad Request', 'Bad Request: failed to process audio: corrupt or unsupported data'),
    'bad_audio',
  ],
  ['media type', 415, deepgramError('UNSUPPORTED_MEDIA_TYPE', 'no'), 'unsupported_format'],
  ['query', 400, deepgramError('INVALID_QUERY_PARAMETER', 'Failed to deserialize'), 'other'],
]

const ASSEMBLYAI: readonly Row[] = [
  ['auth', 401, { error: 'Authentication error, API token missing/invalid' }, 'ill'],
  [
    'billing',
    400,
    { error: 'Your current account balance is negative. Please top up to continue using the API.' },
    'ill',
  ],
  ['rights', 403, { error: 'Cannot access uploaded file' }, 'ill'],
  ['rate', 429, { error: 'Too Many Requests' }, 'ill'],
  ['server', 500, { error: 'Internal server error' }, 'ill'],
  ['size', 413, '', 'over too_large'],
  ['server fault in a transcript', 200, { error: 'Internal server error' }, 'ill'],
  ['server fault, at length', 200, { error: 'Internal server error. Please retry your request.' }, 'ill'],
  ['server fault, older', 200, { error: 'Server error, developers have been alerted.' }, 'ill'],
  [
    'own store',
    200,
    { error: 'Download error, unable to download https://cdn.assemblyai.com/upload/1' },
    'ill',
  ],
  [
    'upload',
    200,
    { error: 'Upload failed, please try again. If you continue to have issues please reach out' },
    'ill',
  ],
  [
    'bad audio',
    200,
    { error: 'Transcoding failed. File does not appear to contain audio.' },
    'bad_audio',
    'audio',
  ],
  ['short audio', 200, { error: 'Audio duration is too short.' }, 'bad_audio', 'audio'],
  ['audio, in other words', 200, { error: `${CANARY} no spoken audio` }, 'bad_audio', 'audio'],
  ['request', 400, { error: `Invalid endpoint schema ${CANARY}` }, 'other'],
]

const mistralError = (
  status: number,
  type: string,
  message: string,
  code: string | null = null,
  param: string | null = null,
) => ({ object: 'error', message: `${message} ${CANARY}`, type, param, code, raw_status_code: status })
const MISTRAL: readonly Row[] = [
  ['auth', 401, { detail: 'Unauthorized' }, 'ill'],
  ['billing', 402, { detail: 'Payment required' }, 'ill'],
  ['model', 400, mistralError(400, 'invalid_model', 'Invalid model', '1500'), 'ill'],
  ['model, as its page has it', 400, mistralError(400, INVALID, 'no', 'unknown_model', 'model'), 'ill'],
  ['overload', 429, mistralError(429, 'service_tier_capacity_exceeded', 'no', '3505'), 'ill'],
  ['server', 500, mistralError(500, 'internal_server_error', 'no'), 'ill'],
  ['size', 413, '', 'over too_large'],
  [
    'option',
    422,
    {
      object: 'error',
      message: { detail: [{ loc: ['body', 'language'], msg: CANARY, type: 'e' }] },
      type: INVALID,
    },
    'unsupported_option',
    'language',
  ],
  [
    'bad audio',
    422,
    {
      object: 'error',
      message: { detail: [{ loc: ['body', 'file'], msg: CANARY, type: 'e' }] },
      type: INVALID,
    },
    'bad_audio',
    'audio',
  ],
  ['request', 400, mistralError(400, 'invalid_request_invalid_args', 'no', '3051'), 'other'],
]

const RUNWAY: readonly Row[] = [
  ['auth', 401, { error: 'Unauthorized' }, 'ill'],
  ['billing', 400, { error: 'You do not have enough credits to run this task.' }, 'ill'],
  ['rate', 429, { error: 'Too many requests' }, 'ill'],
  ['server', 500, { error: 'Internal' }, 'ill'],
  ['size', 413, '', 'over too_large'],
  ['request', 400, { error: `Validation of body failed ${CANARY}`, issues: [] }, 'other'],
]

const CASES: readonly Case[] = [
  ...rowsOf('openai', 'chat', OPENAI),
  ...rowsOf('openai', 'transcription', OPENAI_HEARING),
  ...rowsOf('groq', 'chat', GROQ),
  ...rowsOf('openai-compatible', 'chat', OPENROUTER),
  ...rowsOf('anthropic', 'chat', ANTHROPIC),
  ...rowsOf('gemini', 'chat', GEMINI),
  ...rowsOf('elevenlabs', 'speech', ELEVENLABS),
  ...rowsOf('elevenlabs', 'transcription', ELEVENLABS_HEARING),
  ...rowsOf('deepgram', 'transcription', DEEPGRAM),
  ...rowsOf('assemblyai', 'transcription', ASSEMBLYAI),
  ...rowsOf('mistral', 'transcription', MISTRAL),
  ...rowsOf('runway', 'video', RUNWAY),
]

const MODELS: Readonly<Record<string, string>> = { runway: 'gen4.5', mistral: 'voxtral-mini-transcribe-3-0' }
const WAV = memoryAudio(Buffer.from('RIFF and what follows'), 'identity')

const PAYLOADS: { readonly [K in OperationName]?: Calls[K] } = {
  chat: chatCall(),
  speech: speechCall().payload,
  transcription: transcriptionCall({ audio: WAV.audio }).payload,
  video: { prompt: 'a lark', duration_seconds: null, size: null, seed: null },
}

/** The first entry: what a row says, where AssemblyAI's answers of 200 come at the end of an upload. */
const tells =
  ({ status, body }: Case) =>
  (response: ServerResponse, { url = '' }: IncomingMessage) => {
    const uploads = status === 200 && url.endsWith('/v2/upload')
    const failed = url.endsWith('/v2/transcript') ? { id: 'x', status: 'error', ...(body as object) } : body
    const answer = uploads ? { upload_url: 'https://cdn.assemblyai.com/upload/1' } : failed
    response.writeHead(uploads ? 200 : status, { 'content-type': 'application/json' })
    response.end(typeof answer === 'string' ? answer : JSON.stringify(answer))
  }

/** The second entry, of whatever operation; a video ends there, since its making would take polls. */
const serves = (response: ServerResponse, { url = '' }: IncomingMessage) => {
  if (url.endsWith('/audio/speech')) return response.setHeader('content-type', 'audio/mpeg').end('mpeg')
  const choice = { index: 0, message: { role: 'assistant', content: 'well' }, finish_reason: 'stop' }
  const answer = url.endsWith('/audio/transcriptions') ? { text: 'well' } : { choices: [choice] }
  return response.writeHead(url.endsWith('/videos') ? 500 : 200).end(JSON.stringify(answer))
}

/** Failures in a row that open a breaker. */
const BREAKER_FAILURES = 5

const CURED: ReadonlySet<string> = new Set(['chat', 'speech', 'transcription'])

t.test('every error of every provider through a route of two entries', async (t) => {
  t.ok(CASES.length >= 121, `${CASES.length} cases`)
  const second = await upstream(t, serves)
  for (const cases of Map.groupBy(CASES, ({ kind, operation }) => `${kind} ${operation}`).values()) {
    await t.test(`${cases[0]?.kind} ${cases[0]?.operation}`, (t) => seeCases(t, cases, second))
  }
  const told = new Set(CASES.map(({ fate }) => fate.replace('over ', '')))
  t.same(
    REJECTION_REASONS.filter((reason) => !told.has(reason)),
    [],
    'every reason is told by a case',
  )
})

/** All errors of one operation at one provider; each case finds both entries in good health. */
async function seeCases(t: Test, cases: readonly Case[], second: Upstream) {
  let told = cases[0]!
  const first = await upstream(t, (response, request) => tells(told)(response, request))
  const { kind, operation } = told
  const entries = [entryAt(first.origin, { kind, model: MODELS[kind] ?? 'm' }), entryAt(second.origin)]
  const rateLimit = { requestsPerMinute: 60_000, burst: 10_000 }
  const caller = { key: { ...principal().key, rateLimit } }
  const both = gatewayRig(t, { entries, reader: WAV.reader, caller })
  const alone = gatewayRig(t, { entries: entries.slice(0, 1), reader: WAV.reader, caller })
  for (const one of cases) {
    told = one
    const { name, fate } = one
    const services = { ...both.services, health: createCircuitBreakers() }
    const before = second.requests.length
    const goesOn = fate === 'ill' || fate.startsWith('over ')

    const call = both.request(operation, PAYLOADS[operation]!)
    const outcome = await runWhole(services, call).then((done) => done.release(), String)
    t.equal(outcome === undefined, goesOn && CURED.has(operation), `${name}: who answers`)
    t.equal(second.requests.length - before, goesOn ? 1 : 0, `${name}: the second`)
    t.equal(call.context.routing.attempts[0]?.failure?.status, one.status, `${name}: the first`)
    for (let times = 1; times < BREAKER_FAILURES; times += 1) {
      await runWhole(services, both.request(operation, PAYLOADS[operation]!)).then(
        (done) => done.release(),
        String,
      )
    }
    const { state } = services.health.view(entries[0]!, performance.now())
    t.equal(state, fate === 'ill' ? 'open' : 'closed', `${name}: the breaker`)

    const refusal = await refusalOf(
      runWhole(
        { ...alone.services, health: createCircuitBreakers() },
        alone.request(operation, PAYLOADS[operation]!),
      ),
    )
    seeRefusal(t, one, errorReply(refusal, 'req_1'))
  }
}

/** The refusal that the caller sees where there is no other entry. */
function seeRefusal(
  t: Test,
  { name, fate, param = null }: Case,
  { status, body }: ReturnType<typeof errorReply>,
) {
  const { error } = body
  t.notOk(JSON.stringify(body).includes(CANARY), `${name}: nothing that the provider said`)
  if (fate === 'ill') {
    t.match({ status, ...error }, { status: 502, code: 'UPSTREAM_ERROR', retryable: true }, name)
    return
  }
  const said = { status, code: error.code, param: error.param, reason: error.details.reason }
  t.same(said, { status: 422, code: 'UPSTREAM_REJECTED', param, reason: fate.replace('over ', '') }, name)
  t.match(error.message, /^the (?:provider|input|request) .{10,}/, `${name}: a sentence of our own`)
}

t.test('when every entry is over a limit, the last one says which', async (t) => {
  const tell = async (status: number, body: unknown) =>
    entryAt(
      (await upstream(t, tells({ kind: '', operation: 'chat', name: '', fate: 'ill', status, body }))).origin,
    )
  const long = await tell(400, openai('no', 'context_length_exceeded'))
  const large = await tell(413, '')
  const failing = await tell(500, '')
  const codeOf = async (entries: Parameters<typeof gatewayRig>[1]['entries']) => {
    const { services, request } = gatewayRig(t, { entries })
    const { code, extra } = await refusalOf(runWhole(services, request('chat', chatCall())))
    return [code, extra.details?.reason]
  }
  t.same(await codeOf([large, long]), ['UPSTREAM_REJECTED', 'context_too_long'])
  t.same(await codeOf([long, failing]), ['UPSTREAM_ERROR', undefined], 'the second may do it another time')
  t.same(await codeOf([failing, long]), ['UPSTREAM_ERROR', undefined], 'so may the first')
})
