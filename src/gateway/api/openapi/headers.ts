import type { Json } from './schema.ts'

function header(description: string, schema: Json = { type: 'string' }): Json {
  return { description, schema }
}

const COUNT = { type: 'integer', minimum: 0 }

function usageHeader(name: string, type = 'integer'): Json {
  return header(`as \`usage.${name}\``, { type, minimum: 0 })
}

/** Headers of answers, by name. Facts are in headers where the body is not JSON. */
export const HEADERS = {
  'X-LK-Request-ID': header('request ID: the one sent, or a new one'),
  'X-LK-Policy-Version-Id': header('version of the route used', {
    type: 'string',
    pattern: '^pv_[0-9a-f]{16}$',
  }),
  'X-LK-Idempotency': header('`ignored` where idempotency keys aren’t supported, `bypassed` for streams', {
    type: 'string',
    enum: ['ignored', 'bypassed'],
  }),
  'X-LK-Idempotent-Replay': header('a replayed answer: nothing was executed or charged', {
    type: 'string',
    const: 'true',
  }),
  'x-ratelimit-limit-requests': header("size of the key's bucket", COUNT),
  'x-ratelimit-remaining-requests': header('requests left', COUNT),
  'x-ratelimit-reset-requests': header('time until the limit resets, e.g. `120ms`, `1s`, `6m0s`'),
  'x-ratelimit-limit-tokens': header(
    'tokens a minute, where the key or its workspace has such a limit',
    COUNT,
  ),
  'x-ratelimit-remaining-tokens': header('tokens left', COUNT),
  'x-ratelimit-reset-tokens': header('time until all of them are there again'),
  'x-ratelimit-limit-audio-seconds': header('seconds of audio a minute, where there is such a limit', COUNT),
  'x-ratelimit-remaining-audio-seconds': header('seconds left', COUNT),
  'x-ratelimit-reset-audio-seconds': header('time until all of them are there again'),
  'x-should-retry': header('equals `retryable`', { type: 'string', enum: ['true', 'false'] }),
  'Retry-After': header('whole seconds', { type: 'integer', minimum: 1 }),
  Location: header('where the job, or the upload, is'),
  'X-LK-Provider': header('provider or model that answered'),
  'X-LK-Model': header('provider or model that answered'),
  'X-LK-Purpose-Source': header('as `lk_purpose_source`'),
  'X-LK-Requested-Purpose': header('the purpose sent, percent-encoded'),
  'X-LK-Applied-Purpose': header('the purpose of the entry that answered, percent-encoded'),
  'X-LK-Cost-Usd': header('what the provider charges, USD'),
  'X-LK-Cache': header('whether the audio was made for an earlier call, where the route keeps speech', {
    type: 'string',
    enum: ['hit', 'miss'],
  }),
  'X-LK-Encoded-From': header('format of the provider that the audio was made of here; absent: as it came'),
  'X-LK-Warnings': header('JSON array of lines, ASCII, up to 2 KiB'),
  'X-LK-Groups': header('of CSV, as `groups`', COUNT),
  'X-LK-Truncated': header('of CSV, as `truncated`', { type: 'string', enum: ['true', 'false'] }),
  'X-LK-Usage-Audio-Seconds': usageHeader('audio_seconds', 'number'),
  'X-LK-Usage-Billable-Audio-Seconds': usageHeader('billable_audio_seconds', 'number'),
  'X-LK-Usage-Audio-Output-Characters': usageHeader('audio_output_characters'),
  'X-LK-Usage-Input-Tokens': usageHeader('input_tokens'),
  'X-LK-Usage-Output-Tokens': usageHeader('output_tokens'),
  'X-LK-Usage-Images': usageHeader('images'),
  'X-LK-Usage-Total-Tokens': usageHeader('total_tokens'),
  'x-request-id': header("as `X-LK-Request-ID`, where OpenAI's libraries look for it"),
  'dg-request-id': header("`X-LK-Request-ID` as a UUID, where Deepgram's libraries look for it"),
  'request-id': header("as `X-LK-Request-ID`, where ElevenLabs' libraries look for it"),
  'x-character-count': header('characters of the text', COUNT),
  'dg-model-name': header('as `X-LK-Model`'),
  'dg-char-count': header('characters of the text', COUNT),
  'dg-error': header('why the request was refused'),
  'WWW-Authenticate': header('how to authenticate: `Bearer`'),
  ETag: header('of this version'),
  'Access-Control-Allow-Origin': header('lets pages of any origin read the answer', {
    type: 'string',
    const: '*',
  }),
  'Access-Control-Expose-Headers': header('which of its headers they can read', {
    type: 'string',
    const: '*',
  }),
  'Access-Control-Allow-Methods': header('methods that they may ask by'),
  'Access-Control-Allow-Headers': header('headers that they may send'),
  'Access-Control-Max-Age': header('seconds for which a browser need not ask again', COUNT),
  'Tus-Version': header('versions of tus that are served'),
  'Tus-Extension': header('extensions of tus that are served'),
  'Tus-Checksum-Algorithm': header('algorithms of `Upload-Checksum`'),
  'Upload-Metadata': header('as it was sent'),
  'Upload-Concat': header('as it was sent'),
  'Tus-Resumable': header('version of tus', { type: 'string', const: '1.0.0' }),
  'Upload-Offset': header('bytes that are stored', COUNT),
  'Upload-Length': header('bytes of the whole', COUNT),
  'Upload-Expires': header('when it can be used no more, as an HTTP date'),
  'Accept-Ranges': header('`bytes`'),
  'Content-Disposition': header('name of the file that `format` asks for'),
  'Content-Range': header('byte range and total size'),
} as const

export type HeaderName = keyof typeof HEADERS

/** On every answer that pages of any origin may read. */
export const ANY_ORIGIN_HEADERS: readonly HeaderName[] = [
  'Access-Control-Allow-Origin',
  'Access-Control-Expose-Headers',
]

/** On every answer that took a token of the key's bucket. */
const LIMITED = [
  ...['x-ratelimit-limit-requests', 'x-ratelimit-remaining-requests', 'x-ratelimit-reset-requests'],
  ...['x-ratelimit-limit-tokens', 'x-ratelimit-remaining-tokens', 'x-ratelimit-reset-tokens'],
  ...['x-ratelimit-limit-audio-seconds', 'x-ratelimit-remaining-audio-seconds'],
  'x-ratelimit-reset-audio-seconds',
] as const satisfies readonly HeaderName[]

const FACTS = [
  ...['X-LK-Provider', 'X-LK-Model', 'X-LK-Purpose-Source', 'X-LK-Requested-Purpose', 'X-LK-Applied-Purpose'],
  ...['X-LK-Cost-Usd', 'X-LK-Warnings', 'X-LK-Usage-Total-Tokens'],
] as const satisfies readonly HeaderName[]

/** Beside a transcript that is text. */
export const TRANSCRIPT_FACTS: readonly HeaderName[] = [
  ...FACTS,
  'X-LK-Usage-Audio-Seconds',
  'X-LK-Usage-Billable-Audio-Seconds',
]

/** Beside speech that is the body. */
export const SPEECH_FACTS: readonly HeaderName[] = [
  ...FACTS,
  'X-LK-Usage-Audio-Output-Characters',
  'X-LK-Cache',
  'X-LK-Encoded-From',
]

/** Beside what a model has written, or vectors, in OpenAI's shapes. */
export const TOKEN_FACTS: readonly HeaderName[] = [
  ...FACTS,
  'X-LK-Usage-Input-Tokens',
  'X-LK-Usage-Output-Tokens',
]

/** Beside pictures in OpenAI's shape. */
export const IMAGE_FACTS: readonly HeaderName[] = [...TOKEN_FACTS, 'X-LK-Usage-Images']

const TEXT: Json = { type: 'string' }

export function inHeader(name: string, description: string, schema = TEXT) {
  return { name, in: 'header', description, schema }
}

function inPath(name: string, description: string) {
  return { name, in: 'path', required: true, description, schema: TEXT }
}

/** Parameters of requests that more than one operation takes, by the name of the component. */
export const PARAMETERS = {
  RequestId: inHeader(
    'X-LK-Request-ID',
    'request ID, 1 to 128 of `A-Z a-z 0-9 . _ -`; an invalid one is replaced',
  ),
  Traceparent: inHeader('traceparent', 'W3C trace context, passed on to the provider'),
  Purpose: inHeader(
    'X-LK-Purpose',
    'purpose that selects the route; the field `purpose` takes precedence, an unknown one is ignored',
  ),
  Require: inHeader(
    'X-LK-Require',
    'what every provider that is tried has to promise, e.g. `region=eu|us, retention=zero, training=never`; ' +
      'what the field `require`, the purpose and the workspace demand holds beside it',
  ),
  EndUser: inHeader(
    'X-LK-End-User',
    'your customer whom the request is for, in UTF-8: counted in the usage ledger, and limited where the workspace ' +
      'says so',
    { type: 'string', minLength: 1, maxLength: 128 },
  ),
  IdempotencyKey: inHeader(
    'Idempotency-Key',
    'executes the request at most once; 1 to 256 visible ASCII characters',
    { type: 'string', pattern: '^[\\x21-\\x7e]{1,256}$' },
  ),
  TenantId: inPath('tenant_id', 'ID of the key’s workspace'),
  JobId: inPath('job_id', '`tj_…`'),
  UploadId: inPath('upload_id', '`upl_…`'),
  Token: inPath('token', 'from the URL'),
} as const satisfies Record<string, Json>

export type ParameterName = keyof typeof PARAMETERS

/** Headers of every answer of an endpoint. Before a key is known there is neither a route nor a bucket. */
export function commonHeaders({ limited, scope, headers = [] }: Common, isKeyKnown = true): HeaderName[] {
  return [
    'X-LK-Request-ID',
    ...headers,
    ...(isKeyKnown && scope !== null ? (['X-LK-Policy-Version-Id'] as const) : []),
    ...(isKeyKnown && limited ? LIMITED : []),
  ]
}

interface Common {
  readonly limited: boolean
  /** Null: the endpoint takes no key. */
  readonly scope: string | null
  readonly headers?: readonly HeaderName[]
}
