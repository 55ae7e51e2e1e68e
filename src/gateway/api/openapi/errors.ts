import { Type } from 'typebox'
import { ERRORS, type ErrorCode, errorReply, GatewayError } from '../../../contracts/errors.ts'
import { REJECTION_REASONS } from '../../../contracts/upstream.ts'
import { type ErrorShape, shapedError } from './operation.ts'
import { nullable, shape, text } from './schema.ts'

/** Every code that is sent; a client that went away is sent nothing. */
export const CODES = (Object.keys(ERRORS) as ErrorCode[]).filter((code) => code !== 'CLIENT_CLOSED')

const CATEGORIES = [...new Set(CODES.map((code) => ERRORS[code].category))]

const Attempt = shape('Attempt', {
  provider: Type.String(),
  model: Type.String(),
  status: nullable(Type.Integer(), "the provider's; null: it did not answer"),
  milliseconds: Type.Number({ minimum: 0 }),
  reason: text('`ok`, or why it failed'),
  replica: Type.Optional(
    Type.Integer({ minimum: 0, description: "which of the provider's servers; absent: it has one address" }),
  ),
})

const ConsideredEntry = shape('ConsideredEntry', {
  route: Type.String(),
  provider: Type.String(),
  model: Type.String(),
  group: Type.Enum(['purpose', 'purpose_route', 'assigned_route']),
  rank: nullable(Type.Integer({ minimum: 1 }), 'place among the candidates; null: left out'),
  left: nullable(Type.String(), 'why it was left out, in a word'),
  detail: nullable(Type.String(), 'the same in words'),
  missing: Type.Optional(Type.Array(Type.String(), { description: 'missing capabilities or features' })),
  conflict: Type.Optional(Type.Array(Type.String(), { description: 'features that can’t be combined' })),
  param: Type.Optional(text('the field that is over its limit')),
  retry_after_ms: Type.Optional(Type.Number({ minimum: 0 })),
  last_resort: Type.Optional(Type.Literal(true)),
})

export const Details = shape(
  'ErrorDetails',
  {
    limit: Type.Optional(text('name of the limit that was crossed')),
    limit_bytes: Type.Optional(Type.Integer({ minimum: 0 })),
    received_bytes: Type.Optional(
      Type.Integer({ minimum: 0, description: 'bytes counted when the limit was exceeded' }),
    ),
    declared_bytes: Type.Optional(Type.Integer({ minimum: 0, description: 'Content-Length' })),
    used_bytes: Type.Optional(Type.Integer({ minimum: 0, description: 'of that limit, by what there is' })),
    offset: Type.Optional(Type.Integer({ minimum: 0, description: 'bytes that the upload has' })),
    limit_seconds: Type.Optional(Type.Number({ minimum: 0 })),
    audio_seconds: Type.Optional(Type.Number({ minimum: 0 })),
    reason: Type.Optional(
      text(
        'why audio is not fetched from the URL; of UPSTREAM_REJECTED why the provider refused the input, one of ' +
          `${REJECTION_REASONS.map((reason) => `\`${reason}\``).join(', ')}`,
      ),
    ),
    status: Type.Optional(Type.Integer({ description: 'HTTP status from the host of the URL' })),
    scope: Type.Optional(text('that the key lacks')),
    budget: Type.Optional(text('which one is used up: `key` or `workspace`')),
    policy_version_id: Type.Optional(nullable(Type.String(), 'version of the route')),
    attempts: Type.Optional(Type.Array(Attempt, { description: 'entries that were tried' })),
    entries: Type.Optional(Type.Array(ConsideredEntry, { description: 'why each entry was skipped' })),
    required_capabilities: Type.Optional(Type.Array(Type.String())),
    retry_after_ms: Type.Optional(Type.Number({ minimum: 0 })),
  },
  'facts, each where it applies',
)

/** The inner object of the envelope; a failed job has it, too. */
export const ErrorBody = shape('ErrorBody', {
  code: Type.Enum(CODES),
  category: Type.Enum(CATEGORIES),
  retryable: Type.Boolean({ description: 'whether the same request can be retried' }),
  message: text('a sentence for people'),
  param: nullable(Type.String(), 'the field at fault'),
  type: Type.Enum(CATEGORIES, { description: "same as the category, for OpenAI's libraries" }),
  request_id: Type.String(),
  details: Details,
})

export const ErrorEnvelope = shape('Error', { error: ErrorBody }, 'every error, whatever the endpoint')

/** Id of the request in examples. */
const REQUEST_ID = 'req_01m7vpxmwhcxyhwv0c3a668m1h'

/** An error as it is sent. */
export function exampleOf(code: ErrorCode, shape?: ErrorShape): object {
  const error = new GatewayError(code)
  return shapedError(shape, error, REQUEST_ID, errorReply(error, REQUEST_ID).body)
}

/** `UPSTREAM_ERROR` as names of components are written: `UpstreamError`. */
export function pascal(code: string): string {
  return code.toLowerCase().replace(/(?:^|_)([a-z])/g, (_match, letter: string) => letter.toUpperCase())
}

/** The codes of an operation by their status, in the order of the statuses. */
export function byStatus(codes: readonly ErrorCode[]): ReadonlyMap<number, readonly ErrorCode[]> {
  const groups = Map.groupBy(codes, (code) => ERRORS[code].status as number)
  return new Map([...groups].sort(([one], [other]) => one - other))
}

/** Which codes wait: they are sent with `Retry-After`, or may be, as after a provider's own. */
export function waits(code: ErrorCode): boolean {
  if (code === 'UPSTREAM_ERROR' || code === 'UPSTREAM_TIMEOUT') return true
  return Object.hasOwn(errorReply(new GatewayError(code), '').headers, 'retry-after')
}

/** The table of all error codes. */
export function errorTable(): string {
  const rows = CODES.map((code) => {
    const { status, retryable, message } = ERRORS[code]
    return `| ${status} | \`${code}\` | ${retryable ? 'yes' : 'no'} | ${message} |`
  })
  return ['| Status | Code | Retry | Meaning |', '|---|---|---|---|', ...rows].join('\n')
}
