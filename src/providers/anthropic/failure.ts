import type { JsonObject } from '../../schema/json.ts'
import type { Failure, UpstreamReply } from '../../schema/upstream.ts'
import { classify } from '../failure.ts'
import { asObject, objectOf } from '../json.ts'

/**
 * Codes in `error.details.error_code` that mean the account, whatever the status they come with: an
 * organization on hold answers 400, one over its spend limit 429. Named in resources/shared.d.ts of
 * @anthropic-ai/sdk 1.10.0.
 */
const ACCOUNT_CODES: ReadonlySet<unknown> = new Set([
  'organization_on_hold',
  'contract_spend_limit_reached',
  'enforced_spend_limit_reached',
  'linked_organization_billing_unavailable',
  'linked_organization_spend_limit_reached',
  'user_profile_billing_not_authorized',
  'user_profile_not_billable',
])

/** What an answer other than 2xx means: `{"type": "error", "error": {"type", "message", "details"}}`. */
export function classifyAnthropic(reply: UpstreamReply): Failure {
  const failure = classify(reply)
  const { details } = asObject(objectOf(reply)?.error) ?? {}
  if (!ACCOUNT_CODES.has(asObject(details)?.error_code)) return failure
  return { ...failure, kind: 'credential', reason: 'the account is on hold or over its spend limit' }
}

/**
 * The same as an event of a stream that began well. Its type decides; one that is not known is the
 * provider's own trouble, as a request that it took cannot be wrong.
 */
export function classifyErrorEvent(
  event: JsonObject,
  { status, headers }: Pick<UpstreamReply, 'status' | 'headers'>,
): Failure {
  const body = [Buffer.from(JSON.stringify(event))]
  return { ...classifyAnthropic({ status: 500, headers, body }), status }
}
