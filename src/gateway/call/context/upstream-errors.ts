import { loggedAttempt } from '../../../contracts/call-facts.ts'
import { GatewayError } from '../../../contracts/errors.ts'
import type { AttemptRecord } from '../../../contracts/recorder.ts'
import type { Failure, Rejection, RejectionReason } from '../../../contracts/upstream.ts'
import type { CallContext } from './call-context.ts'

/** Most that a timer may fire before its time on the other clock. */
const TIMER_SLACK_MS = 50

/** Messages to the caller, one per reason. */
const REJECTIONS: Readonly<Record<RejectionReason, string>> = {
  bad_audio: 'the provider cannot read this audio; check that the file is complete and plays',
  bad_image: 'the provider cannot read a picture of this request',
  unsupported_format: 'the provider does not take files of this format; send another format',
  too_long: 'the input is longer than the provider takes; send it in parts',
  too_large: 'the request is larger than the provider takes; send less, or the audio in parts',
  context_too_long: 'the input has more tokens than the model takes; shorten it',
  content_policy: 'the provider refused the content under its content policy',
  unknown_voice: 'the provider has no such voice',
  unsupported_option: 'the provider does not take an option of this request, or not with this value',
  other: 'the provider refused this input',
}

/**
 * The provider refused this very input. The message is in our own words, never in the provider's.
 *
 * @param failure for the log, here and below
 */
export function rejected(context: CallContext, failure: Failure): GatewayError {
  const { reason, param } = rejectionIn(failure)
  const { details, ...extra } = errorExtra(context, failure)
  return new GatewayError('UPSTREAM_REJECTED', REJECTIONS[reason], {
    ...extra,
    ...(param === null ? {} : { param }),
    details: { reason, ...details },
  })
}

function rejectionIn({ kind, rejection }: Failure): Rejection {
  return rejection ?? { reason: kind === 'content' ? 'content_policy' : 'other', param: null }
}

/**
 * Every entry failed, or the deadline passed; without a failure when there was no time for an attempt. RATE_LIMITED
 * when all of them have as many calls at once as they may, so that none was asked. When all entries
 * that were tried are rate limited, the error says when the first of those that could serve may be tried again, as does
 * the refusal of any call before that.
 *
 * @param leftMs until the deadline of the call, here and below
 * @param unhealthyMs how long each entry that was excluded for its health is not tried
 */
export function exhausted(
  context: CallContext,
  failure: Failure | null,
  leftMs: number,
  unhealthyMs: readonly number[] = [],
): GatewayError {
  // A call that is over a limit everywhere, or could not even be sent, is itself at fault: a retry would not help.
  if (failure !== null && context.routing.attempts.every(isInvalidEverywhere))
    return rejected(context, failure)
  if (failure !== null && context.routing.attempts.every(isBusy)) return busy(context, failure)
  const late = leftMs <= TIMER_SLACK_MS
  const retryAfterMs = Math.ceil(Math.min(soonestMs(context), ...unhealthyMs))
  const extra = errorExtra(context, failure)
  return new GatewayError(
    late ? 'UPSTREAM_TIMEOUT' : 'UPSTREAM_ERROR',
    undefined,
    failure === null || retryAfterMs <= 0
      ? extra
      : { ...extra, details: { ...extra.details, retry_after_ms: retryAfterMs }, retryAfterMs },
  )
}

/** When the first of those that were tried may be tried again. */
function soonestMs({ routing: { attempts } }: CallContext): number {
  return Math.min(...attempts.map(({ failure }) => failure?.retryAfterMs ?? 0))
}

function busy(context: CallContext, failure: Failure): GatewayError {
  const retryAfterMs = Math.ceil(soonestMs(context))
  const message = `all providers have as many calls as they may; retry after ${Math.ceil(retryAfterMs / 1_000)} s`
  return new GatewayError('RATE_LIMITED', message, { ...errorExtra(context, failure), retryAfterMs })
}

/** A provider may have done the work, and its outcome is unknown. */
export function outcomeUnknown(context: CallContext, failure: Failure | null): GatewayError {
  return new GatewayError('UPSTREAM_OUTCOME_UNKNOWN', undefined, errorExtra(context, failure))
}

/** True when a provider may have done the work of a failed call: one of the attempts has no known end. */
export function isUnknown({ routing: { attempts }, money }: CallContext): boolean {
  return money.estimate !== null || attempts.some(({ failure }) => failure?.kind === 'ambiguous')
}

/**
 * True when the failure of a store ended an attempt while the audio was being sent: the provider has a body that is cut
 * short, and does not work on it.
 */
export function isCutShort(thrown: unknown): boolean {
  return thrown instanceof GatewayError && thrown.code === 'DEPENDENCY_UNAVAILABLE'
}

/** True when the providers failed, and not the gateway. */
export function isUpstream(thrown: unknown): thrown is GatewayError {
  return thrown instanceof GatewayError && thrown.code.startsWith('UPSTREAM_')
}

/** A streamed answer broke off after the caller had part of it. */
export function brokenOff(context: CallContext, failure: Failure, leftMs: number): GatewayError {
  const { code, extra } = exhausted(context, failure, leftMs)
  return new GatewayError(code, 'the answer of the provider broke off', extra)
}

function isBusy({ failure }: AttemptRecord): boolean {
  return failure?.kind === 'busy'
}

function isInvalidEverywhere({ failure }: AttemptRecord): boolean {
  return failure?.kind === 'limit' || (failure?.kind === 'model' && failure.status === null)
}

function errorExtra({ routing: { policyVersionId, attempts } }: CallContext, failure: Failure | null) {
  const details = { policy_version_id: policyVersionId, attempts: attempts.map(loggedAttempt) }
  return failure === null ? { details } : { details, cause: failure.providerMessage ?? failure.reason }
}
