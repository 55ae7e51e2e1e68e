import type { Entry } from '../schema/catalog.ts'
import type { Failure } from '../schema/upstream.ts'
import { type CallWindow, createCallWindow } from './call-window.ts'
import { tellsOfHealth } from './upstream-errors.ts'

/** Failures in a row that open a breaker. */
const CONSECUTIVE_FAILURES = 5
/** Fewer calls than these say nothing of a rate. */
const RATED_CALLS = 20
/** Part of the calls of the last seconds whose failure opens a breaker. */
const FAILURE_RATE = 0.5
const OPEN_MS = 10_000
/** A trial that nobody reports on gives its place up after this: longer than any caller waits, if not any job. */
const TRIAL_LEASE_MS = 600_000

export interface EntryHealth {
  /** `cooling`: the provider asked to be left alone. The others are the states of the breaker. */
  readonly state: 'closed' | 'half_open' | 'open' | 'cooling'
  /**
   * When it may be tried again, which is past for a half-open breaker whose trial is free; null when closed.
   * On the clock of `performance.now()`, as every time here.
   */
  readonly untilMs: number | null
  /** When the breaker opened, the last time; null while it is closed. */
  readonly openedAtMs: number | null
}

/** An entry's health with what led to it, for those who look at it. */
export interface EntryCondition {
  readonly state: EntryHealth['state']
  /** When it came into this state; null when closed. */
  readonly sinceMs: number | null
  /** The last failure that counted against it; null: there was none. */
  readonly lastFailure: { readonly failure: Failure; readonly atMs: number } | null
}

/** How each entry fares on this node. One that a reload changes is another entry, and is taken for healthy. */
export interface HealthBook {
  /** A look that changes nothing, for selection and explanation. */
  view(entry: Entry, nowMs: number): EntryHealth
  /** The same with its history, for the console. */
  condition(entry: Entry, nowMs: number): EntryCondition
  /**
   * Whether an attempt may begin. Of a half-open breaker this takes the one trial, which `succeeded`, `failed` or
   * `released` gives back; an open breaker and a cooling entry admit nobody.
   */
  admit(entry: Entry, nowMs: number): boolean
  succeeded(entry: Entry, nowMs: number): void
  failed(entry: Entry, failure: Failure, nowMs: number): void
  /** The attempt ended without a verdict, since the caller left. */
  released(entry: Entry): void
}

interface Breaker {
  readonly window: CallWindow
  consecutiveFailures: number
  /** Null: closed. */
  openedAtMs: number | null
  /** End of the lease of the trial that is under way; null: there is none. */
  trialUntilMs: number | null
  coolingSinceMs: number
  coolingUntilMs: number
  lastFailure: EntryCondition['lastFailure']
}

const CLOSED: EntryHealth = Object.freeze({ state: 'closed', untilMs: null, openedAtMs: null })

export function createHealthBook(): HealthBook {
  const breakers = new WeakMap<Entry, Breaker>()

  function breakerOf(entry: Entry): Breaker {
    const known = breakers.get(entry)
    if (known !== undefined) return known
    const breaker = newBreaker()
    breakers.set(entry, breaker)
    return breaker
  }

  return {
    view(entry, nowMs) {
      const breaker = breakers.get(entry)
      return breaker === undefined ? CLOSED : viewOf(breaker, nowMs)
    },

    condition(entry, nowMs) {
      const breaker = breakers.get(entry)
      if (breaker === undefined) return { state: 'closed', sinceMs: null, lastFailure: null }
      const { state } = viewOf(breaker, nowMs)
      return { state, sinceMs: sinceMs(breaker, state), lastFailure: breaker.lastFailure }
    },

    admit(entry, nowMs) {
      const breaker = breakers.get(entry)
      if (breaker === undefined) return true
      const { state, untilMs } = viewOf(breaker, nowMs)
      if (state === 'closed') return true
      if (state !== 'half_open' || (untilMs ?? 0) > nowMs) return false
      breaker.trialUntilMs = nowMs + TRIAL_LEASE_MS
      return true
    },

    succeeded(entry, nowMs) {
      const breaker = breakerOf(entry)
      if (breaker.trialUntilMs !== null) return close(breaker)
      // What began before the breaker opened, or in spite of it, decides nothing.
      if (breaker.openedAtMs !== null) return
      breaker.consecutiveFailures = 0
      breaker.window.count(nowMs, false)
      openIfFailing(breaker, nowMs)
    },

    failed(entry, failure, nowMs) {
      const { retryAfterMs } = failure
      const breaker = breakerOf(entry)
      // What is wrong is the call, or the call is over a limit: other calls fare as before.
      if (!tellsOfHealth(failure)) {
        breaker.trialUntilMs = null
        return
      }
      breaker.lastFailure = { failure, atMs: nowMs }
      if (retryAfterMs !== null) {
        if (breaker.coolingUntilMs <= nowMs) breaker.coolingSinceMs = nowMs
        breaker.coolingUntilMs = Math.max(breaker.coolingUntilMs, nowMs + retryAfterMs)
      }
      if (breaker.trialUntilMs !== null) return open(breaker, nowMs)
      if (breaker.openedAtMs !== null) return
      breaker.consecutiveFailures += 1
      breaker.window.count(nowMs, true)
      openIfFailing(breaker, nowMs)
    },

    released(entry) {
      const breaker = breakers.get(entry)
      if (breaker !== undefined) breaker.trialUntilMs = null
    },
  }
}

function newBreaker(): Breaker {
  return {
    window: createCallWindow(),
    consecutiveFailures: 0,
    openedAtMs: null,
    trialUntilMs: null,
    coolingSinceMs: 0,
    coolingUntilMs: 0,
    lastFailure: null,
  }
}

function viewOf(breaker: Breaker, nowMs: number): EntryHealth {
  const { openedAtMs, trialUntilMs, coolingUntilMs } = breaker
  if (coolingUntilMs > nowMs) return { state: 'cooling', untilMs: coolingUntilMs, openedAtMs }
  if (openedAtMs === null) return CLOSED
  const openUntilMs = openedAtMs + OPEN_MS
  if (openUntilMs > nowMs) return { state: 'open', untilMs: openUntilMs, openedAtMs }
  return { state: 'half_open', untilMs: trialUntilMs ?? openUntilMs, openedAtMs }
}

function sinceMs({ openedAtMs, coolingSinceMs }: Breaker, state: EntryHealth['state']): number | null {
  if (state === 'cooling') return coolingSinceMs
  return openedAtMs === null || state !== 'half_open' ? openedAtMs : openedAtMs + OPEN_MS
}

function openIfFailing(breaker: Breaker, nowMs: number): void {
  if (breaker.consecutiveFailures < CONSECUTIVE_FAILURES) {
    const { calls, failures } = breaker.window.totals(nowMs)
    if (calls < RATED_CALLS || failures < calls * FAILURE_RATE) return
  }
  open(breaker, nowMs)
}

function open(breaker: Breaker, nowMs: number): void {
  breaker.trialUntilMs = null
  breaker.openedAtMs = nowMs
}

function close(breaker: Breaker): void {
  breaker.trialUntilMs = null
  breaker.openedAtMs = null
  breaker.consecutiveFailures = 0
  // What opened it must not open it again at the next failure.
  breaker.window.clear()
}
