import { GatewayError } from '../errors.ts'
import type { Failure, FailureKind, Rejection, RejectionReason } from '../schema/upstream.ts'
import type { AttemptRecord, Trail } from './gateway.ts'

/** The caller's own fault: it fails everywhere alike, and says nothing of the entry that told. */
const OF_THE_CALL: ReadonlySet<FailureKind> = new Set(['caller', 'content'])

/** Whether another entry could cure a failure. */
export function isCurable({ kind }: Pick<Failure, 'kind'>): boolean {
  return !OF_THE_CALL.has(kind)
}

/** Whether a failure says anything of the entry's health: a limit that a call is over is no illness. */
export function tellsOfHealth(failure: Pick<Failure, 'kind'>): boolean {
  return isCurable(failure) && failure.kind !== 'limit'
}

/** A timer may fire this much before its time on the other clock. */
const TIMER_SLACK_MS = 50

/** Sentences for the caller, one for each reason. */
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
 * The provider refused this very input. Why is told in our own words, never in the provider's.
 *
 * @param failure what the log is told, here and below
 */
export function rejected(trail: Trail, failure: Failure): GatewayError {
  const { reason, param } = rejectionOf(failure)
  const { details, ...extra } = extraOf(trail, failure)
  return new GatewayError('UPSTREAM_REJECTED', REJECTIONS[reason], {
    ...extra,
    ...(param === null ? {} : { param }),
    details: { reason, ...details },
  })
}

function rejectionOf({ kind, rejection }: Failure): Rejection {
  return rejection ?? { reason: kind === 'content' ? 'content_policy' : 'other', param: null }
}

/**
 * Every entry failed, or the deadline passed; without a failure when there was no time for an attempt. When all that
 * were asked want to be left alone it says when the first of those that could serve may be tried again, as the refusal
 * of whoever comes before that will.
 *
 * @param unwellMs how long those that were not asked for how they fare are not tried
 */
export function exhausted(
  trail: Trail,
  failure: Failure | null,
  deadlineAtMs: number,
  unwellMs: readonly number[] = [],
): GatewayError {
  // What is over a limit everywhere, or could not even be sent, is wrong with the call: it would not fare better later.
  if (failure !== null && trail.attempts.every(isUntakable)) return rejected(trail, failure)
  const late = performance.now() >= deadlineAtMs - TIMER_SLACK_MS
  const waitsMs = trail.attempts.map((attempt) => attempt.failure?.retryAfterMs ?? 0)
  const retryAfterMs = Math.ceil(Math.min(...waitsMs, ...unwellMs))
  const extra = extraOf(trail, failure)
  return new GatewayError(
    late ? 'UPSTREAM_TIMEOUT' : 'UPSTREAM_ERROR',
    undefined,
    failure === null || retryAfterMs <= 0
      ? extra
      : { ...extra, details: { ...extra.details, retry_after_ms: retryAfterMs }, retryAfterMs },
  )
}

/** Something that may have been done, of which nobody can say what became of it. */
export function outcomeUnknown(trail: Trail, failure: Failure | null): GatewayError {
  return new GatewayError('UPSTREAM_OUTCOME_UNKNOWN', undefined, extraOf(trail, failure))
}

/** Whether a provider may have done the work of a call that came to nothing: one of the attempts has no known end. */
export function isUnknown({ attempts, estimate }: Trail): boolean {
  return estimate !== null || attempts.some(({ failure }) => failure?.kind === 'ambiguous')
}

/**
 * Whether what kept the gateway from going on was a store that failed while the audio was being sent: that leaves a
 * body that is cut short, which nobody works on.
 */
export function isCutShort(thrown: unknown): boolean {
  return thrown instanceof GatewayError && thrown.code === 'DEPENDENCY_UNAVAILABLE'
}

/** A streamed answer that broke off when the caller already had part of it. */
export function brokenOff(trail: Trail, failure: Failure, deadlineAtMs: number): GatewayError {
  const { code, extra } = exhausted(trail, failure, deadlineAtMs)
  return new GatewayError(code, 'the answer of the provider broke off', extra)
}

function isUntakable({ failure }: AttemptRecord): boolean {
  return failure?.kind === 'limit' || (failure?.kind === 'model' && failure.status === null)
}

function extraOf({ policyVersionId, attempts }: Trail, failure: Failure | null) {
  const shown = attempts.map(({ failure: _, ...attempt }) => attempt)
  const details = { policy_version_id: policyVersionId, attempts: shown }
  return failure === null ? { details } : { details, cause: failure.providerMessage ?? failure.reason }
}
