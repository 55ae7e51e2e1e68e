import type { JsonObject } from '../schema/json.ts'
import type { Failure, FailureKind, UpstreamReply } from '../schema/upstream.ts'
import { type Complaint, complaintIn, readComplaint } from './complaint.ts'
import { retryAfterMs } from './retry-after.ts'

type Head = Pick<UpstreamReply, 'status' | 'headers'>

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
 * retired model or a bad key, 401 for an unknown voice, and 200 with an error in the middle of a stream. Each
 * as its provider documents it: https://platform.openai.com/docs/guides/error-codes,
 * https://console.groq.com/docs/errors, https://help.elevenlabs.io/hc/en-us/articles/19572237925521,
 * https://developers.deepgram.com/docs/errors, https://docs.anthropic.com/en/api/errors,
 * https://ai.google.dev/gemini-api/docs/troubleshooting,
 * https://www.assemblyai.com/docs/sync-stt/error-handling, https://docs.fal.ai/model-apis/errors,
 * https://docs.mistral.ai/resources/error-glossary
 */
const KIND_OF_CODE: ReadonlyMap<string, FailureKind> = new Map(
  Object.entries({
    credential: [
      // OpenAI
      'insufficient_quota',
      'credit_balance_exhausted',
      'organization_spend_limit_exceeded',
      'project_spend_limit_exceeded',
      'organization_usage_limit_exceeded',
      'billing_hard_limit_reached',
      'billing_not_active',
      'account_deactivated',
      'unsupported_country_region_territory',
      // OpenAI and ElevenLabs
      'invalid_api_key',
      // ElevenLabs
      'missing_permissions',
      'quota_exceeded',
      // Deepgram
      'INVALID_AUTH',
      'INSUFFICIENT_PERMISSIONS',
      'ASR_PAYMENT_REQUIRED',
      // Anthropic
      'authentication_error',
      'billing_error',
      'permission_error',
      // Anthropic's `error.details.error_code`, @anthropic-ai/sdk 1.10.0 resources/shared.d.ts: an organization
      // on hold answers 400, one over its spend limit 429.
      'organization_on_hold',
      'contract_spend_limit_reached',
      'enforced_spend_limit_reached',
      'linked_organization_billing_unavailable',
      'linked_organization_spend_limit_reached',
      'user_profile_billing_not_authorized',
      'user_profile_not_billable',
      // Google: FAILED_PRECONDITION means that billing, or the region, does not allow the free tier.
      'API_KEY_INVALID',
      'API_KEY_EXPIRED',
      'API_KEY_SERVICE_BLOCKED',
      'API_KEY_HTTP_REFERRER_BLOCKED',
      'API_KEY_IP_ADDRESS_BLOCKED',
      'SERVICE_DISABLED',
      'BILLING_DISABLED',
      'CONSUMER_INVALID',
      'CONSUMER_SUSPENDED',
      'UNAUTHENTICATED',
      'PERMISSION_DENIED',
      'FAILED_PRECONDITION',
    ],
    model: [
      'model_not_found',
      'model_not_active',
      'model_decommissioned',
      'deployment_not_found',
      'UNIMPLEMENTED',
      // Mistral, with 400; the page says the second
      'invalid_model',
      'unknown_model',
    ],
    caller: [
      // ElevenLabs, also with 401
      'voice_not_found',
      'max_character_limit_exceeded',
      // Anthropic
      'request_too_large',
    ],
    content: ['content_policy_violation', 'content_filter', 'moderation_blocked'],
    rate: [
      'rate_limit_exceeded',
      'slow_down',
      'server_is_overloaded',
      'engine_overloaded',
      // Groq and AssemblyAI
      'capacity_exceeded',
      // ElevenLabs
      'too_many_concurrent_requests',
      'system_busy',
      // Deepgram
      'TOO_MANY_REQUESTS',
      // Anthropic
      'rate_limit_error',
      'overloaded_error',
      // Google
      'RESOURCE_EXHAUSTED',
      'UNAVAILABLE',
    ],
    server: [
      // Anthropic
      'api_error',
      'timeout_error',
      // AssemblyAI
      'inference_timeout',
      // Google
      'INTERNAL',
      'DEADLINE_EXCEEDED',
      'ABORTED',
      'CANCELLED',
    ],
  } satisfies Partial<Record<FailureKind, readonly string[]>>).flatMap(([kind, codes]) =>
    codes.map((code) => [code, kind as FailureKind]),
  ),
)

/**
 * Statuses whose kind is not that of their hundred. 498 and 529 are Groq's and Anthropic's words for
 * overload; 425 is ElevenLabs' "too early".
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

/** Longest prose that is kept for the log, bytes. */
const MESSAGE_MAX_BYTES = 2 * 1024

/**
 * What an answer other than 2xx means for failover: documented codes first, then the status, never the prose.
 * A 404 counts against the model, not the caller, unless it names the voice: a path or model that is not
 * there is there at another provider.
 */
export function classify(reply: UpstreamReply): Failure {
  return classifyComplaint(readComplaint(reply), reply)
}

/** The same, of a complaint that stands inside of an answer. @param head its status is what the complaint means */
export function classifyInside(body: JsonObject, head: Head): Failure {
  return classifyComplaint(complaintIn(body), head)
}

function classifyComplaint(complaint: Complaint, { status, headers }: Head): Failure {
  const kind = kindOf(status, complaint)
  return {
    kind,
    status,
    reason: REASONS[kind],
    retryAfterMs: retryAfterMs(headers, complaint.retryAfterMs),
    providerMessage: loggable(kind, status, complaint),
  }
}

/**
 * An answer with a good status whose content cannot be used: the provider's fault, so another entry may do
 * better.
 */
export function unusable(reply: Pick<UpstreamReply, 'status'>, reason: string): Failure {
  return { kind: 'server', status: reply.status, reason, retryAfterMs: null, providerMessage: null }
}

/**
 * A call that is not sent, since this model, or the whole provider, is known to have no place for something in it.
 * That is no fault of the caller's: another entry may take the very same call.
 */
export function refused(reason: string): Failure {
  return { kind: 'model', status: null, reason, retryAfterMs: null, providerMessage: null }
}

function kindOf(status: number, { codes, param }: Complaint): FailureKind {
  for (const code of codes) {
    const kind = KIND_OF_CODE.get(code)
    if (kind !== undefined) return kind
  }
  if (status === 404 && (param === 'voice' || param === 'voice_id')) return 'caller'
  if ((status === 400 || status === 422) && (param === 'model' || param === 'model_id')) return 'model'
  const kind = KIND_OF_STATUS.get(status)
  if (kind !== undefined) return kind
  return status >= 400 && status < 500 ? 'caller' : 'server'
}

/** What the provider said; where it refuses the key, which it may repeat, only its codes. */
function loggable(kind: FailureKind, status: number, { codes, message }: Complaint): string | null {
  const said = kind === 'credential' || status === 401 ? codes.join(', ') : (message ?? '')
  return said === '' ? null : clip(said)
}

/** At most MESSAGE_MAX_BYTES of UTF-8, not cut inside a character. */
function clip(message: string): string {
  // No UTF-16 unit takes less than a byte.
  const bytes = Buffer.from(message.slice(0, MESSAGE_MAX_BYTES + 1))
  if (bytes.byteLength <= MESSAGE_MAX_BYTES) return message
  let end = MESSAGE_MAX_BYTES
  while (((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1
  return bytes.toString('utf8', 0, end)
}
