import { GatewayError } from '../../../contracts/errors.ts'
import type { UnitBucket, UnitDecision } from '../../../contracts/rate-limit.ts'
import type { Call } from '../facts/call.ts'
import { isLive } from '../facts/facts-for.ts'
import { bucketsOf, type Limiter, TakenUnits, type Unit, type UnitLevel, unitsAhead } from '../facts/units.ts'
import type { AdmittedContext } from './call-context.ts'
import type { ActiveCall } from './services.ts'

/**
 * Takes what a call holds out of the buckets of its key and of its workspace. What is known of it only by its answer is
 * taken then. A job was counted when it was accepted, and a live session is refused at its beginning alone.
 *
 * @returns null: nothing of it is limited
 * @throws  GatewayError RATE_LIMITED, or rejects with it
 */
export function takeUnits({
  services: { state },
  context,
  call,
  job,
}: ActiveCall): TakenUnits | null | Promise<TakenUnits> {
  if (job !== null && job.isUncounted !== true) return null
  const isDue = job !== null || (isLive(call) && context.whole.answer.units !== null)
  return takeOf(state, context, call, isDue)
}

/** The same when a job is accepted, whose answer is counted as it was foreseen. */
export function takeAhead(state: Limiter, context: AdmittedContext, call: Call): Promise<unknown> {
  return Promise.resolve(takeOf(state, context, call, false))
}

function takeOf(
  state: Limiter,
  context: AdmittedContext,
  call: Call,
  isDue: boolean,
): TakenUnits | null | Promise<TakenUnits> {
  const all = bucketsOf(context.principal)
  if (all === null) return null
  const ahead = unitsAhead(call)
  const taken = new TakenUnits(state, all, ahead)
  // Slices of live audio are used up, but for the last.
  if (isLive(call)) taken.keep()
  const buckets = ahead === null ? undefined : all[ahead.unit]
  if (ahead === null || buckets === undefined) return taken
  const decision = state.unitLimiter.take(buckets, ahead.units, isDue)
  const decided = (one: UnitDecision) => {
    noteUnits(context, ahead.unit, buckets, one)
    return taken
  }
  return decision instanceof Promise ? decision.then(decided) : decided(decision)
}

/** The bucket that a caller is told of is its key's, unless that has none, or it is the workspace's that refuses. */
function noteUnits(
  context: AdmittedContext,
  unit: Unit,
  buckets: readonly UnitBucket[],
  { buckets: states, retryAfterMs }: UnitDecision,
): void {
  const levels = states.map((state, index): UnitLevel => ({ unit, limit: buckets[index]!.perMinute, state }))
  const [first] = levels
  const least = levels.find(({ state }) => state.retryAfterMs === retryAfterMs && retryAfterMs > 0)
  context.whole.answer.units = least ?? first ?? null
  if (least === undefined) return
  const isOfKey = buckets[levels.indexOf(least)]!.id.startsWith('key:')
  const name = unit === 'tokens' ? 'tokens' : 'audio_seconds'
  throw new GatewayError('RATE_LIMITED', `too many ${name.replace('_', ' ')} a minute`, {
    retryAfterMs,
    details: { rate_limit: isOfKey ? 'key' : 'workspace', unit: name, limit_per_minute: least.limit },
  })
}
