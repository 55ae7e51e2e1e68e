import type { OperationName } from '../schema/operations.ts'
import { operationOf } from '../schema/provider.ts'
import type { Failure } from '../schema/upstream.ts'
import { noteRoute } from './admit.ts'
import type { Consideration } from './consideration.ts'
import { estimateOf } from './estimate.ts'
import type { CallRequest, Services } from './gateway.ts'
import { entryKey } from './handover.ts'
import type { Candidate, Selection } from './select.ts'
import { Trial } from './trial.ts'
import { exhausted, isCurable, isCutShort, outcomeUnknown, rejected } from './upstream-errors.ts'

/** One entry's turn. */
export interface Turn {
  readonly candidate: Candidate
  /** When it has to be done, on the clock of `performance.now()`. */
  readonly deadlineAtMs: number
  /** No other entry comes after it. */
  readonly last: boolean
  /** An earlier claim of the job has ordered from this entry: the turn goes on with that. */
  readonly goesOn: boolean
}

/** A turn that came to nothing. */
export interface Missed {
  readonly failure: Failure
  /** False when the failure says nothing of the entry: nothing was sent, or it did answer. */
  readonly blamed: boolean
  /** An order may have been taken and nobody can know: no other entry is asked. */
  readonly unknown: boolean
}

export interface Won<Got> {
  readonly got: Got
  /** Still open: its verdict is the winner's to give. */
  readonly trial: Trial
}

/**
 * Gives the candidates their turns, in order, until one answers. The caller sees one outcome. Every turn but the last
 * gets half of the time that is left, so that one hanging entry does not use up the failover; but all of it where no
 * other entry could be asked afterwards. A job that is taken over goes on with what its provider works on already.
 *
 * @param deadlineAtMs on the clock of `performance.now()`
 * @throws GatewayError UPSTREAM_REJECTED, UPSTREAM_ERROR, UPSTREAM_TIMEOUT, UPSTREAM_OUTCOME_UNKNOWN; whatever `take`
 *         throws, the signal's reason for one when the caller left
 */
export async function failOver<K extends OperationName, Got>(
  services: Services,
  request: CallRequest<K>,
  selection: Pick<Selection, 'candidates' | 'considered'>,
  deadlineAtMs: number,
  take: (turn: Turn) => Promise<{ readonly got: Got } | Missed>,
): Promise<Won<Got>> {
  const { operation, call, trail } = request
  const { candidates, begun } = inTurn(request, selection)
  let failure: Failure | null = null
  for (const [index, candidate] of candidates.entries()) {
    const startMs = performance.now()
    if (startMs >= deadlineAtMs) break
    // Whoever left before pays for no attempt.
    request.signal.throwIfAborted()
    const last = index === candidates.length - 1
    const goesOn = candidate === begun
    // No call fails without a try: the last one is taken whatever its health when all before it were passed over.
    // What was ordered is paid for, so that it is asked after in any case.
    const needed = goesOn || (last && failure === null)
    if (!services.health.admit(candidate.entry, startMs) && !needed) continue

    const whole = last || createsOnce(services, request, candidate)
    const turnEndsAtMs = whole ? deadlineAtMs : (startMs + deadlineAtMs) / 2
    const turn = { candidate, deadlineAtMs: turnEndsAtMs, last, goesOn }
    trail.trace?.attempt(operation, candidate.entry)
    const trial = new Trial(services, trail, operation, candidate)
    // Noted before: the caller may leave at any moment, and then nothing is noted any more.
    noteRoute(trail, candidate.route)
    trail.forPurpose = candidate.forPurpose
    const { entry } = candidate
    trail.estimate = { entry, metered: () => estimateOf(entry, operation, call.payload) }
    const taken = await take(turn).catch((error: unknown) => {
      trial.released(request.signal.aborted ? 'the caller left' : 'the gateway could not go on')
      if (isCutShort(error)) trail.estimate = null
      throw error
    })
    if ('got' in taken) return { ...taken, trial }

    failure = taken.failure
    trial.failed(failure, taken.blamed)
    if (taken.unknown) throw outcomeUnknown(trail, failure)
    trail.estimate = null
    if (!isCurable(failure)) throw rejected(trail, failure)
  }
  throw exhausted(trail, failure, deadlineAtMs, unwellMs(selection.considered))
}

/** The candidates; first of all the one that an earlier claim of the job has begun with, where that left something. */
function inTurn<K extends OperationName>(
  { job }: CallRequest<K>,
  { candidates, considered }: Pick<Selection, 'candidates' | 'considered'>,
): { readonly candidates: readonly Candidate[]; readonly begun: Candidate | null } {
  const progress = job?.progress ?? null
  if (progress === null) return { candidates, begun: null }
  const isIt = ({ entry }: Pick<Candidate, 'entry'>) => entryKey(entry) === progress.entry
  const begun = candidates.find(isIt) ?? unwell(considered.find((one) => isUnwell(one) && isIt(one)))
  if (begun === null) return { candidates, begun }
  return { candidates: [begun, ...candidates.filter((candidate) => candidate !== begun)], begun }
}

/** Left out for nothing but how its provider fares, which says nothing of what was ordered there before. */
function isUnwell({ left }: Consideration): boolean {
  return left?.why === 'cooling' || left?.why === 'breaker'
}

/** How long those that were left out for how they fare are not tried. */
function unwellMs(considered: readonly Consideration[]): number[] {
  return considered.flatMap(({ left }) =>
    left?.why === 'cooling' || left?.why === 'breaker' ? (left.retryAfterMs ?? []) : [],
  )
}

function unwell(considered: Consideration | undefined): Candidate | null {
  if (considered === undefined) return null
  const { route, entry, group } = considered
  return { route, entry, forPurpose: group === 'purpose' }
}

function createsOnce<K extends OperationName>(
  { providers }: Services,
  { operation }: CallRequest<K>,
  { entry }: Candidate,
): boolean {
  return operationOf(providers.get(entry.provider.kind), operation)?.createsOnce === true
}
