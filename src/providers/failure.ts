import type { Failure, FailureKind, UpstreamReply } from '../schema/upstream.ts'
import { asObject, objectOf, textOf } from './json.ts'

/** What a provider says of a failure, in whichever of the usual shapes. */
interface Complaint {
  /** `code`, else `type`: machine-readable words, never prose. */
  readonly codes: readonly string[]
  /** The request field at fault. */
  readonly param: string | null
  readonly message: string | null
}

const REASONS: Readonly<Record<FailureKind, string>> = {
  rate: 'the provider is over its rate or its load',
  server: 'the provider failed',
  connect: 'the provider could not be reached',
  ambiguous: 'the provider broke off',
  credential: 'the provider refused the credential, its permissions or its balance',
  model: 'the provider does not serve this model',
  caller: 'the provider refused the request',
  content: 'the provider refused the content',
}

/**
 * Codes that outrank the status they come with: providers answer 429 when the money is gone, 400 for a
 * retired model, and 403 for a model outside the project. OpenAI's guide to error codes; Groq's and
 * ElevenLabs' error pages.
 */
const KIND_OF_CODE: ReadonlyMap<string, FailureKind> = new Map(
  Object.entries({
    credential: [
      'insufficient_quota',
      'credit_balance_exhausted',
      'organization_spend_limit_exceeded',
      'project_spend_limit_exceeded',
      'organization_usage_limit_exceeded',
      'billing_hard_limit_reached',
      'billing_not_active',
      'billing_error',
      'account_deactivated',
      'quota_exceeded',
      'invalid_api_key',
      'missing_permissions',
      'unsupported_country_region_territory',
    ],
    model: ['model_not_found', 'model_not_active', 'model_decommissioned', 'deployment_not_found'],
    content: ['content_policy_violation', 'content_filter', 'moderation_blocked'],
    rate: [
      'rate_limit_exceeded',
      'slow_down',
      'server_is_overloaded',
      'engine_overloaded',
      'capacity_exceeded',
    ],
  } satisfies Partial<Record<FailureKind, readonly string[]>>).flatMap(([kind, codes]) =>
    codes.map((code) => [code, kind as FailureKind]),
  ),
)

/**
 * Statuses whose kind is not that of their hundred. 498 and 529 are Groq's and Anthropic's words for
 * overload.
 */
const KIND_OF_STATUS: ReadonlyMap<number, FailureKind> = new Map([
  [401, 'credential'],
  [402, 'credential'],
  [403, 'credential'],
  [404, 'model'],
  [405, 'model'],
  [408, 'server'],
  [409, 'server'],
  [410, 'model'],
  [424, 'server'],
  [425, 'rate'],
  [429, 'rate'],
  [498, 'rate'],
  [499, 'server'],
  [501, 'model'],
  [503, 'rate'],
  [529, 'rate'],
])

/** No provider's word puts an entry out of use for longer than this. */
const RETRY_AFTER_MAX_MS = 24 * 3_600_000
/** Longest complaint that is read, parsed or logged, bytes. */
const COMPLAINT_MAX_BYTES = 64 * 1024
const MESSAGE_MAX_BYTES = 2 * 1024

/**
 * What an answer other than 2xx means for failover: documented codes first, then the status, never the prose.
 * A 404 counts against the model, not the caller, unless it names the voice: a path or model that is not
 * there is there at another provider.
 */
export function classify(reply: UpstreamReply): Failure {
  const complaint = readComplaint(reply)
  const kind = kindOf(reply.status, complaint)
  return {
    kind,
    status: reply.status,
    reason: REASONS[kind],
    retryAfterMs: retryAfterMs(reply.headers),
    providerMessage: loggable(reply.status, complaint),
  }
}

/**
 * An answer with a good status whose content cannot be used: the provider's fault, so another entry may do
 * better.
 */
export function unusable(reply: UpstreamReply, reason: string): Failure {
  return { kind: 'server', status: reply.status, reason, retryAfterMs: null, providerMessage: null }
}

/** A call that is not sent, since the provider is known to refuse it. */
export function refused(kind: 'caller' | 'model', reason: string): Failure {
  return { kind, status: null, reason, retryAfterMs: null, providerMessage: null }
}

/**
 * How long a provider asks to be left alone: `retry-after-ms`, or `retry-after` in seconds or as an HTTP
 * date. A date is counted from the answer's own `date`, so no clock is needed and none can be wrong; without
 * it, it is ignored.
 */
export function retryAfterMs(headers: UpstreamReply['headers']): number | null {
  const milliseconds = decimal(headers['retry-after-ms'])
  if (milliseconds !== null) return bounded(milliseconds)
  const { 'retry-after': given, date } = headers
  const seconds = decimal(given)
  if (seconds !== null) return bounded(seconds * 1000)
  const [until, now] = [epochMs(given), epochMs(date)]
  return until === null || now === null ? null : bounded(until - now)
}

function kindOf(status: number, { codes, param }: Complaint): FailureKind {
  for (const code of codes) {
    const kind = KIND_OF_CODE.get(code)
    if (kind !== undefined) return kind
  }
  if (status === 404 && (param === 'voice' || codes.includes('voice_not_found'))) return 'caller'
  if ((status === 400 || status === 422) && param === 'model') return 'model'
  const kind = KIND_OF_STATUS.get(status)
  if (kind !== undefined) return kind
  return status >= 400 && status < 500 ? 'caller' : 'server'
}

/**
 * `{error: {code, type, param, message}}`, `{error: "…"}`, `{detail: …}` or `{message}`; other bodies as
 * plain text.
 */
function readComplaint(reply: UpstreamReply): Complaint {
  if (reply.body.reduce((sum, chunk) => sum + chunk.byteLength, 0) > COMPLAINT_MAX_BYTES) {
    return { codes: [], param: null, message: null }
  }
  const body = objectOf(reply)
  if (body === null) return { codes: [], param: null, message: textOf(reply).trim() || null }
  const { error, detail, message: outer } = body
  const inner = asObject(error) ?? asObject(detail) ?? body
  const { code, type, status, param, message } = inner
  const codes = [code, type, status].filter((word) => typeof word === 'string')
  const said = [message, error, detail, outer].find((value) => typeof value === 'string')
  return {
    codes,
    param: typeof param === 'string' ? param : null,
    message: typeof said === 'string' ? said : null,
  }
}

function decimal(text: string | undefined): number | null {
  return text !== undefined && /^\d{1,15}(\.\d+)?$/.test(text.trim()) ? Number(text) : null
}

/**
 * `Fri, 20 Nov 2026 10:00:00 GMT`, the one form that RFC 9110 lets be sent; Date.parse alone takes "-5" for a
 * year.
 */
function epochMs(date: string | undefined): number | null {
  const wellFormed = /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/.test(date ?? '')
  const epoch = wellFormed ? Date.parse(date ?? '') : Number.NaN
  return Number.isNaN(epoch) ? null : epoch
}

function bounded(milliseconds: number): number {
  return Math.min(RETRY_AFTER_MAX_MS, Math.max(0, Math.round(milliseconds)))
}

/** What the provider said, but for a 401, which may repeat the key: there only its codes. */
function loggable(status: number, { codes, message }: Complaint): string | null {
  const said = status === 401 ? codes.join(', ') : (message ?? '')
  return said === '' ? null : clip(said)
}

/** At most MESSAGE_MAX_BYTES of UTF-8, not cut inside a character. */
function clip(message: string): string {
  const bytes = Buffer.from(message)
  if (bytes.byteLength <= MESSAGE_MAX_BYTES) return message
  let end = MESSAGE_MAX_BYTES
  while (((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1
  return bytes.toString('utf8', 0, end)
}
