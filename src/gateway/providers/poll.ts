import type { Step } from '../../contracts/provider.ts'
import type { UpstreamReply, UpstreamRequest } from '../../contracts/upstream.ts'
import { isGood } from './answer.ts'
import { classify } from './failure.ts'

/** How often in a row a poll may go wrong before the job is given up. */
const TROUBLES_MAX = 5

/** Polling state of a create-and-poll operation, beside its own state. */
export interface Polling {
  /** Polls in a row that went wrong. */
  readonly troubles: number
}

/**
 * Decides how to go on when the answer to a poll is not the job's state: a provider that is overloaded, or fails for a
 * moment, is asked again, since the job is paid for. Null: the answer is good.
 *
 * @param again the state to go on with, given the count of troubles
 */
export function pollTrouble<Result>(
  reply: UpstreamReply,
  { troubles }: Polling,
  poll: {
    readonly request: UpstreamRequest
    readonly everyMs: number
    readonly again: (troubles: number) => unknown
  },
): Step<Result> | null {
  if (isGood(reply)) return null
  const failure = classify(reply)
  const passing = failure.kind === 'rate' || failure.kind === 'server'
  if (!passing || troubles >= TROUBLES_MAX) return { kind: 'failed', failure }
  const waitMs = Math.max(poll.everyMs, failure.retryAfterMs ?? 0)
  return { kind: 'wait', waitMs, request: poll.request, state: poll.again(troubles + 1) }
}
