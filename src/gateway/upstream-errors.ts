import { GatewayError } from '../errors.ts'
import type { Failure, FailureKind } from '../schema/upstream.ts'
import type { Trail } from './gateway.ts'
import type { Candidate } from './select.ts'

/** Failures that another entry could cure. The caller's own fault fails everywhere alike. */
const CURABLE: ReadonlySet<FailureKind> = new Set([
  'rate',
  'server',
  'connect',
  'ambiguous',
  'credential',
  'model',
])

export function isCurable({ kind }: Failure): boolean {
  return CURABLE.has(kind)
}

/** A timer may fire this much before its time on the other clock. */
const TIMER_SLACK_MS = 50

/** What the caller is told of calls that no provider answered well. `candidate` is the one whose route is named. */
export interface Ended {
  readonly trail: Trail
  readonly candidate: Candidate | undefined
  /** What the log is told; null: there was no attempt. */
  readonly failure: Failure | null
}

/** The provider refused this very input. */
export function rejected(ended: Ended): GatewayError {
  return new GatewayError('UPSTREAM_REJECTED', undefined, extraOf(ended))
}

/** Every entry failed, or the deadline passed. */
export function exhausted(ended: Ended, deadlineAtMs: number): GatewayError {
  const late = performance.now() >= deadlineAtMs - TIMER_SLACK_MS
  return new GatewayError(late ? 'UPSTREAM_TIMEOUT' : 'UPSTREAM_ERROR', undefined, extraOf(ended))
}

/** An order that may have been taken, of which nobody can say what became of it. */
export function outcomeUnknown(ended: Ended): GatewayError {
  return new GatewayError('UPSTREAM_OUTCOME_UNKNOWN', undefined, extraOf(ended))
}

/** A streamed answer that broke off when the caller already had part of it. */
export function brokenOff(ended: Ended, deadlineAtMs: number): GatewayError {
  const { code, extra } = exhausted(ended, deadlineAtMs)
  return new GatewayError(code, 'the answer of the provider broke off', extra)
}

function extraOf({ trail, candidate, failure }: Ended) {
  const attempts = trail.attempts.map(({ failure: _, ...shown }) => shown)
  const details = { policy_version_id: candidate?.route.version ?? null, attempts }
  return failure === null ? { details } : { details, cause: failure.providerMessage ?? failure.reason }
}
