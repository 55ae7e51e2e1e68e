import { setTimeout as sleep } from 'node:timers/promises'
import { GatewayError } from '../errors.ts'
import type { SpeechCall, TranscriptionCall, TranscriptionResult } from '../schema/calls.ts'
import type { Operation, Target } from '../schema/provider.ts'
import { type Failure, type FailureKind, UpstreamFailure, type UpstreamRequest } from '../schema/upstream.ts'
import { lackedHints, withoutHints } from './eligibility.ts'
import {
  type Call,
  type CallRequest,
  type Calls,
  type OperationName,
  operationOf,
  type Results,
  type Services,
} from './gateway.ts'
import type { Candidate, Selection } from './select.ts'

export interface Attempted<K extends OperationName> {
  readonly candidate: Candidate
  readonly result: Results[K]
  readonly warnings: readonly string[]
  /** Gives the memory of the answer back to the byte budget. Idempotent. */
  release(): void
}

/** Failures that another entry could cure. The caller's own fault fails everywhere alike. */
const CURABLE: ReadonlySet<FailureKind> = new Set([
  'rate',
  'server',
  'connect',
  'ambiguous',
  'credential',
  'model',
])

/** A timer may fire this much before its time on the other clock. */
const TIMER_SLACK_MS = 50

/** Audio this long that came back empty is taken for a failure where the entry says so. */
const EMPTY_SUSPECT_SECONDS = 3

/**
 * Tries the candidates in order until one answers. The caller sees one outcome. Every attempt but the last gets half of
 * the time that is left, so that one hanging entry does not use up the failover.
 *
 * @param deadlineAtMs on the clock of `performance.now()`
 * @throws GatewayError UPSTREAM_REJECTED, UPSTREAM_ERROR, UPSTREAM_TIMEOUT; the signal's reason when the caller left
 */
export async function attempt<K extends OperationName>(
  services: Services,
  request: CallRequest<K>,
  call: Call<K>,
  { candidates }: Selection,
  deadlineAtMs: number,
): Promise<Attempted<K>> {
  for (const [index, candidate] of candidates.entries()) {
    const leftMs = deadlineAtMs - performance.now()
    if (leftMs <= 0) break
    const last = index === candidates.length - 1
    const tried = await tryCandidate(services, request, call, candidate, last ? leftMs : leftMs / 2, last)
    if ('result' in tried) return tried
    if (!CURABLE.has(tried.failure.kind)) throw rejected(tried.failure, request, candidate)
  }
  throw exhausted(request, candidates, performance.now() >= deadlineAtMs - TIMER_SLACK_MS)
}

async function tryCandidate<K extends OperationName>(
  services: Services,
  request: CallRequest<K>,
  call: Call<K>,
  candidate: Candidate,
  budgetMs: number,
  last: boolean,
): Promise<Attempted<K> | { readonly failure: Failure }> {
  const { entry } = candidate
  const startedMs = performance.now()
  const held = holdBytes(services)
  const adapted = adapt(request.operation, call.payload, candidate)
  const outcome = await step(
    services,
    request,
    candidate,
    adapted.payload,
    startedMs + budgetMs,
    held.charge,
  ).catch((error: unknown) => {
    held.release()
    throw error
  })
  const milliseconds = Math.round(performance.now() - startedMs)
  const failure = 'failure' in outcome ? outcome.failure : suspectEmpty(call, outcome.result, candidate, last)
  request.trail.attempts.push({
    provider: entry.provider.name,
    model: entry.model,
    status: failure === null ? 200 : failure.status,
    milliseconds,
    reason: failure?.reason ?? 'ok',
    failure,
  })
  if (failure === null && 'result' in outcome) {
    services.latency.note(entry, milliseconds)
    return { candidate, result: outcome.result, warnings: adapted.warnings, release: held.release }
  }
  held.release()
  return { failure: failure as Failure }
}

/** Drives a provider's stepper: sends, waits, sends again, until it is done or failed. */
async function step<K extends OperationName>(
  services: Services,
  request: CallRequest<K>,
  { entry }: Candidate,
  payload: Calls[K],
  deadlineAtMs: number,
  onHeld: (bytes: number) => void,
): Promise<{ readonly result: Results[K] } | { readonly failure: Failure }> {
  const provider = services.providers.get(entry.provider.kind)
  const operation = operationOf(provider, request.operation) as Operation<Calls[K], Results[K]>
  const { baseUrl, credential } = entry.provider
  const target: Target = { model: entry.model, baseUrl, credential, options: entry.options }
  const { signal } = request
  let next = operation.start(payload, target)
  try {
    for (;;) {
      signal.throwIfAborted()
      if (next.kind === 'done') return { result: next.result }
      if (next.kind === 'failed') return { failure: next.failure }
      const leftMs = deadlineAtMs - performance.now()
      if (next.kind === 'wait') await sleep(Math.min(next.waitMs, Math.max(0, leftMs)), undefined, { signal })
      const upstream = traced(next.kind === 'wait' ? next.then : next.request, request.traceparent)
      const deadlineMs = Math.max(1, deadlineAtMs - performance.now())
      const reply = await services.send(upstream, { deadlineMs, signal, onHeld })
      next = operation.next(next.state, reply, payload, target)
    }
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof UpstreamFailure) return { failure: error.failure }
    throw error
  }
}

function traced(upstream: UpstreamRequest, traceparent: string | undefined): UpstreamRequest {
  return traceparent === undefined ? upstream : { ...upstream, headers: { ...upstream.headers, traceparent } }
}

/** The payload as this entry gets it: without hints that it lacks, with its own name for the voice. */
function adapt<K extends OperationName>(operation: K, payload: Calls[K], { entry }: Candidate) {
  if (operation === 'speech') {
    const call = payload as SpeechCall
    const voice = call.voice === null ? null : (entry.voices[call.voice] ?? call.voice)
    return { payload: { ...call, voice } as Calls[K], warnings: [] }
  }
  const call = payload as TranscriptionCall
  const lacked = lackedHints(entry, call.options)
  const warnings = lacked.map((hint) => `${hint}: ${entry.model} does not take this hint; it was left out`)
  return { payload: { ...call, options: withoutHints(call.options, lacked) } as Calls[K], warnings }
}

function suspectEmpty<K extends OperationName>(
  call: Call<K>,
  result: Results[K],
  { entry }: Candidate,
  last: boolean,
): Failure | null {
  if (last || !entry.retryEmpty || !('text' in result)) return null
  const { audio } = call.payload as TranscriptionCall
  const empty = (result as TranscriptionResult).text.trim() === ''
  if (!empty || (audio.durationSeconds ?? 0) < EMPTY_SUSPECT_SECONDS) return null
  return {
    kind: 'server',
    status: 200,
    reason: 'an empty transcript',
    retryAfterMs: null,
    providerMessage: null,
  }
}

/** Counts the bytes of an answer while they are held. */
function holdBytes({ budget }: Services) {
  let bytes = 0
  return {
    charge(more: number): void {
      bytes += more
      budget.charge(more)
    },
    release(): void {
      budget.refund(bytes)
      bytes = 0
    },
  }
}

/** The attempts as the caller may see them. */
function attemptsOf<K extends OperationName>({ trail }: CallRequest<K>) {
  return trail.attempts.map(({ failure: _, ...shown }) => shown)
}

function rejected<K extends OperationName>(
  failure: Failure,
  request: CallRequest<K>,
  { route }: Candidate,
): GatewayError {
  const details = { policy_version_id: route.version, attempts: attemptsOf(request) }
  return new GatewayError('UPSTREAM_REJECTED', undefined, {
    details,
    cause: failure.providerMessage ?? failure.reason,
  })
}

function exhausted<K extends OperationName>(
  request: CallRequest<K>,
  candidates: readonly Candidate[],
  late: boolean,
): GatewayError {
  const details = { policy_version_id: candidates[0]?.route.version ?? null, attempts: attemptsOf(request) }
  const cause = request.trail.attempts.at(-1)?.failure?.providerMessage ?? undefined
  const extra = cause === undefined ? { details } : { details, cause }
  return new GatewayError(late ? 'UPSTREAM_TIMEOUT' : 'UPSTREAM_ERROR', undefined, extra)
}
