import type { ConfiguredProvider, Principal } from '../../../contracts/catalog.ts'
import type { UnitBucket, UnitBucketState, UnitRates } from '../../../contracts/rate-limit.ts'
import type { State } from '../../../contracts/state.ts'
import type { Call } from './call.ts'
import { isLive } from './facts-for.ts'
import { tokensAhead, type Usage } from './meter.ts'

export type Limiter = Pick<State, 'unitLimiter'>

/** Units that are limited, by their names on the wire. */
export type Unit = 'tokens' | 'audio-seconds'

/** A bucket of the caller as its answer tells of it. */
export interface UnitLevel {
  readonly unit: Unit
  readonly limit: number
  readonly state: UnitBucketState
}

/** Buckets of a caller, for each unit that is limited: that of the key first, then that of the workspace. */
type Buckets = { readonly [Name in Unit]?: readonly UnitBucket[] }

/** Buckets of callers; null: nothing of theirs is limited. */
const known = new WeakMap<Principal, Buckets | null>()

export function bucketsOf(principal: Principal): Buckets | null {
  let buckets = known.get(principal)
  if (buckets === undefined) {
    buckets = makeBuckets(principal)
    known.set(principal, buckets)
  }
  return buckets
}

function makeBuckets({ key, workspace }: Principal): Buckets | null {
  const partition = workspace.id
  const listed = (unit: Unit) => {
    const own = rateOf(key.rateLimit, unit)
    const shared = workspace.unitRates && rateOf(workspace.unitRates, unit)
    return [
      ...(own === undefined ? [] : [{ partition, id: `key:${key.id}:${unit}`, perMinute: own }]),
      ...(shared === undefined ? [] : [{ partition, id: `workspace:${unit}`, perMinute: shared }]),
    ]
  }
  const [tokens, seconds] = [listed('tokens'), listed('audio-seconds')]
  if (tokens.length === 0 && seconds.length === 0) return null
  return {
    ...(tokens.length === 0 ? {} : { tokens }),
    ...(seconds.length === 0 ? {} : { 'audio-seconds': seconds }),
  }
}

function rateOf({ tokensPerMinute, audioSecondsPerMinute }: UnitRates, unit: Unit): number | undefined {
  return unit === 'tokens' ? tokensPerMinute : audioSecondsPerMinute
}

/** The unit by which calls are counted before they are answered, and how much of it this one has; null: by none. */
export function unitsAhead(call: Call): UnitsAhead | null {
  const { operation, payload } = call
  if (operation !== 'transcription' && operation !== 'translation') {
    const units = tokensAhead(call)
    return units === null ? null : { unit: 'tokens', units }
  }
  return { unit: 'audio-seconds', units: payload.audio.durationSeconds ?? 0 }
}

interface UnitsAhead {
  readonly unit: Unit
  readonly units: number
}

/** Units that were taken for a call, until its usage is known. */
export class TakenUnits {
  readonly #limiter: Limiter
  readonly #buckets: Buckets
  readonly #taken: UnitsAhead | null
  #isSettled = false

  constructor(limiter: Limiter, buckets: Buckets, taken: UnitsAhead | null) {
    this.#limiter = limiter
    this.#buckets = buckets
    this.#taken = taken
  }

  /** Takes what the call came to beyond what was taken, or gives the rest back. @param usage null: nothing was done */
  settle(usage: Usage | null): void {
    if (this.#isSettled) return
    this.#isSettled = true
    this.#correct('tokens', usage === null ? 0 : usage.total_tokens)
    this.#correct('audio-seconds', usage === null ? 0 : usage.audio_seconds)
  }

  /** Leaves it at what was taken. */
  keep(): void {
    this.#isSettled = true
  }

  #correct(unit: Unit, units: number | null | undefined): void {
    const buckets = this.#buckets[unit]
    const taken = this.#taken?.unit === unit ? this.#taken.units : 0
    const more = (units ?? taken) - taken
    if (buckets !== undefined && more !== 0) void this.#limiter.unitLimiter.take(buckets, more, true)
  }
}

/**
 * Takes what a call holds out of the buckets of a provider's account.
 *
 * @returns milliseconds until they have it, 0 where it was taken; null: nothing of it is limited
 */
export function takeAccountUnits(
  { unitLimiter }: Limiter,
  provider: ConfiguredProvider,
  call: Call,
): number | null | Promise<number> {
  if (provider.unitRates === undefined || isLive(call)) return null
  const ahead = unitsAhead(call)
  const bucket = ahead === null ? null : accountBucket(provider, ahead.unit)
  if (ahead === null || bucket === null) return null
  const decision = unitLimiter.take([bucket], ahead.units)
  return decision instanceof Promise
    ? decision.then(({ retryAfterMs }) => retryAfterMs)
    : decision.retryAfterMs
}

/** Takes what an answer came to beyond what was taken for its call, or gives the rest back; null: nothing was done. */
export function settleAccountUnits(
  { unitLimiter }: Limiter,
  provider: ConfiguredProvider,
  call: Call,
  usage: Usage | null,
): void {
  const ahead = unitsAhead(call)
  for (const unit of ['tokens', 'audio-seconds'] as const) {
    const bucket = accountBucket(provider, unit)
    const taken = ahead?.unit === unit ? ahead.units : 0
    const came = unit === 'tokens' ? usage?.total_tokens : usage?.audio_seconds
    const more = (usage === null ? 0 : (came ?? taken)) - taken
    if (bucket !== null && more !== 0) void unitLimiter.take([bucket], more, true)
  }
}

function accountBucket({ name, unitRates = {} }: ConfiguredProvider, unit: Unit): UnitBucket | null {
  const perMinute = rateOf(unitRates, unit)
  return perMinute === undefined
    ? null
    : { partition: 'providers', id: `provider:${name}:${unit}`, perMinute }
}
