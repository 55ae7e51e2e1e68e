import type { Entry } from '../../../contracts/catalog.ts'
import type { Failure, FailureKind } from '../../../contracts/upstream.ts'

/** Failures that are the caller's fault: they would be the same at every entry, and say nothing about this one. */
const OF_THE_CALL: ReadonlySet<FailureKind> = new Set(['caller', 'content'])

/** Whether another entry could answer after this failure. */
export function isCurable({ kind }: Pick<Failure, 'kind'>): boolean {
  return !OF_THE_CALL.has(kind)
}

/** Whether a failure counts against the entry's health; a call over a limit does not. */
function tellsOfHealth(failure: Pick<Failure, 'kind'>): boolean {
  return isCurable(failure) && failure.kind !== 'limit'
}

/** Failures in a row that open a breaker. */
const CONSECUTIVE_FAILURES = 5
/** Fewest calls that make a failure rate. */
const RATED_CALLS = 20
/** Failure rate of the last seconds that opens a breaker. */
const FAILURE_RATE = 0.5
const OPEN_MS = 10_000
/** Time after which a trial without a report frees its place: longer than any caller waits, if not any job. */
const TRIAL_LEASE_MS = 600_000

export interface EntryHealth {
  /** `cooling`: the provider sent a `Retry-After`. The others are the states of the breaker. */
  readonly state: 'closed' | 'half_open' | 'open' | 'cooling'
  /**
   * When it may be tried again, in the past for a half-open breaker whose trial is free; null when closed. On the clock
   * of the node, as every time here.
   */
  readonly untilMs: number | null
  /** When the breaker opened, the last time; null while it is closed. */
  readonly openedAtMs: number | null
}

/** An entry's health and its history. */
interface EntryCondition {
  readonly state: EntryHealth['state']
  /** When it came into this state; null when closed. */
  readonly sinceMs: number | null
  /** The last failure that counted against it; null: there was none. */
  readonly lastFailure: { readonly failure: Failure; readonly atMs: number } | null
}

/** Health of each entry on this node. A reload that changes an entry makes another one, which starts healthy. */
export interface CircuitBreakers {
  /** Looks without changing anything, for selection and explanation. */
  view(entry: Entry, nowMs: number): EntryHealth
  /** The same with its history, for the console. */
  condition(entry: Entry, nowMs: number): EntryCondition
  /**
   * Whether an attempt may begin. Takes the one trial of a half-open breaker, which the attempt's end gives back; an
   * open breaker and a cooling entry admit no attempt. An attempt that began before a trial decides nothing of it.
   */
  admit(entry: Entry, nowMs: number): boolean
  /** The attempt's line is up, and may be for hours: that ends a trial. */
  connected(entry: Entry, startedMs: number): void
  /** @param startedMs when the attempt began; default: now */
  succeeded(entry: Entry, nowMs: number, startedMs?: number): void
  failed(entry: Entry, failure: Failure, nowMs: number, startedMs?: number): void
  /** The attempt ended without a verdict, since the caller left. */
  released(entry: Entry, startedMs?: number): void
}

interface Breaker {
  readonly window: CallWindow
  consecutiveFailures: number
  /** Null: closed. */
  openedAtMs: number | null
  /** When the trial began that is under way; null: there is none. */
  trialMs: number | null
  coolingSinceMs: number
  coolingUntilMs: number
  lastFailure: EntryCondition['lastFailure']
}

const CLOSED: EntryHealth = Object.freeze({ state: 'closed', untilMs: null, openedAtMs: null })

export function createCircuitBreakers(): CircuitBreakers {
  const breakers = new WeakMap<Entry, Breaker>()

  function breakerOf(entry: Entry): Breaker {
    const known = breakers.get(entry)
    if (known !== undefined) return known
    const breaker = newBreaker()
    breakers.set(entry, breaker)
    return breaker
  }

  return {
    view: (entry, nowMs) => breakerView(breakers.get(entry), nowMs),

    condition(entry, nowMs) {
      const breaker = breakers.get(entry)
      if (breaker === undefined) return { state: 'closed', sinceMs: null, lastFailure: null }
      const { state } = breakerView(breaker, nowMs)
      return { state, sinceMs: sinceMs(breaker, state), lastFailure: breaker.lastFailure }
    },

    admit(entry, nowMs) {
      const breaker = breakers.get(entry)
      if (breaker === undefined) return true
      const { state, untilMs } = breakerView(breaker, nowMs)
      if (state === 'closed') return true
      if (state !== 'half_open' || (untilMs ?? 0) > nowMs) return false
      breaker.trialMs = nowMs
      return true
    },

    connected(entry, startedMs) {
      const breaker = breakers.get(entry)
      if (breaker !== undefined && isOfTrial(breaker, startedMs)) close(breaker)
    },

    succeeded(entry, nowMs, startedMs = nowMs) {
      const breaker = breakerOf(entry)
      if (isOfTrial(breaker, startedMs)) return close(breaker)
      // An attempt from before the breaker opened, or in spite of it, decides nothing.
      if (breaker.openedAtMs !== null) return
      breaker.consecutiveFailures = 0
      breaker.window.count(nowMs, false)
      openIfFailing(breaker, nowMs)
    },

    failed(entry, failure, nowMs, startedMs = nowMs) {
      const { retryAfterMs } = failure
      // The call itself is at fault, or over a limit: this says nothing about other calls.
      if (!tellsOfHealth(failure)) return this.released(entry, startedMs)
      const breaker = breakerOf(entry)
      breaker.lastFailure = { failure, atMs: nowMs }
      if (retryAfterMs !== null) {
        if (breaker.coolingUntilMs <= nowMs) breaker.coolingSinceMs = nowMs
        breaker.coolingUntilMs = Math.max(breaker.coolingUntilMs, nowMs + retryAfterMs)
      }
      if (isOfTrial(breaker, startedMs)) return openBreaker(breaker, nowMs)
      if (breaker.openedAtMs !== null) return
      breaker.consecutiveFailures += 1
      breaker.window.count(nowMs, true)
      openIfFailing(breaker, nowMs)
    },

    released(entry, startedMs = Number.POSITIVE_INFINITY) {
      const breaker = breakers.get(entry)
      if (breaker !== undefined && isOfTrial(breaker, startedMs)) breaker.trialMs = null
    },
  }
}

function newBreaker(): Breaker {
  return {
    window: createCallWindow(),
    consecutiveFailures: 0,
    openedAtMs: null,
    trialMs: null,
    coolingSinceMs: 0,
    coolingUntilMs: 0,
    lastFailure: null,
  }
}

function breakerView(breaker: Breaker | undefined, nowMs: number): EntryHealth {
  if (breaker === undefined) return CLOSED
  const { openedAtMs, trialMs, coolingUntilMs } = breaker
  if (coolingUntilMs > nowMs) return { state: 'cooling', untilMs: coolingUntilMs, openedAtMs }
  if (openedAtMs === null) return CLOSED
  const openUntilMs = openedAtMs + OPEN_MS
  if (openUntilMs > nowMs) return { state: 'open', untilMs: openUntilMs, openedAtMs }
  return {
    state: 'half_open',
    untilMs: trialMs === null ? openUntilMs : trialMs + TRIAL_LEASE_MS,
    openedAtMs,
  }
}

function sinceMs({ openedAtMs, coolingSinceMs }: Breaker, state: EntryHealth['state']): number | null {
  if (state === 'cooling') return coolingSinceMs
  return openedAtMs === null || state !== 'half_open' ? openedAtMs : openedAtMs + OPEN_MS
}

/** Whether an attempt is the trial, or began beside it. */
function isOfTrial({ trialMs }: Breaker, startedMs: number): boolean {
  return trialMs !== null && startedMs >= trialMs
}

function openIfFailing(breaker: Breaker, nowMs: number): void {
  if (breaker.consecutiveFailures < CONSECUTIVE_FAILURES) {
    const { calls, failures } = breaker.window.totals(nowMs)
    if (calls < RATED_CALLS || failures < calls * FAILURE_RATE) return
  }
  openBreaker(breaker, nowMs)
}

function openBreaker(breaker: Breaker, nowMs: number): void {
  breaker.trialMs = null
  breaker.openedAtMs = nowMs
}

function close(breaker: Breaker): void {
  breaker.trialMs = null
  breaker.openedAtMs = null
  breaker.consecutiveFailures = 0
  // Old failures must not open it again at the next one.
  breaker.window.clear()
}

/** Length of the window, seconds. */
const WINDOW_SECONDS = 30

/** Counts calls and failures of the last 30 seconds, by the second, so that its size does not grow with load. */
interface CallWindow {
  count(nowMs: number, failed: boolean): void
  totals(nowMs: number): { readonly calls: number; readonly failures: number }
  clear(): void
}

/** Times are on the node's clock. */
function createCallWindow(): CallWindow {
  const seconds = new Float64Array(WINDOW_SECONDS).fill(Number.NEGATIVE_INFINITY)
  const calls = new Uint32Array(WINDOW_SECONDS)
  const failures = new Uint32Array(WINDOW_SECONDS)

  return {
    count(nowMs, failed) {
      const second = Math.floor(nowMs / 1000)
      const at = second % WINDOW_SECONDS
      if (seconds[at] !== second) {
        seconds[at] = second
        calls[at] = 0
        failures[at] = 0
      }
      calls[at] = (calls[at] ?? 0) + 1
      if (failed) failures[at] = (failures[at] ?? 0) + 1
    },

    totals(nowMs) {
      const oldest = Math.floor(nowMs / 1000) - WINDOW_SECONDS
      const sum = { calls: 0, failures: 0 }
      for (let at = 0; at < WINDOW_SECONDS; at += 1) {
        if ((seconds[at] ?? oldest) <= oldest) continue
        sum.calls += calls[at] ?? 0
        sum.failures += failures[at] ?? 0
      }
      return sum
    },

    clear() {
      seconds.fill(Number.NEGATIVE_INFINITY)
    },
  }
}

/** Number of newest answers of an entry that count. */
const SAMPLES = 31
/** How long an answer counts. An entry that was once slow is tried again after it. */
const RECENT_MS = 300_000

/** Recent latencies of each entry on this node, for routes with the strategy `lowest_latency`. */
export interface LatencyTracker {
  /** An attempt has begun. Times are on the node's clock. */
  began(entry: Entry, nowMs: number): void
  /** @param milliseconds Infinity: its answer was none */
  note(entry: Entry, milliseconds: number, nowMs: number): void
  /**
   * Median of the newest answers. For an entry without any it is 0, so that it gets tried, and then as long as it has
   * been since, so that not every call waits for it.
   */
  medianMs(entry: Entry, nowMs: number): number
}

interface Answers {
  /** When an attempt began; renewed as often as answers are forgotten. */
  triedAtMs: number
  readonly newest: { readonly milliseconds: number; readonly atMs: number }[]
  /** Computed on demand: routes with other strategies never ask. */
  median: { readonly milliseconds: number; readonly untilMs: number } | null
}

export function createLatencyTracker(): LatencyTracker {
  // Latencies vanish with their entry, when a reload puts another in its place.
  const answers = new WeakMap<Entry, Answers>()
  const answersOf = (entry: Entry) => {
    const known = answers.get(entry) ?? { triedAtMs: Number.NEGATIVE_INFINITY, newest: [], median: null }
    answers.set(entry, known)
    return known
  }
  return {
    began(entry, nowMs) {
      const known = answersOf(entry)
      if (known.triedAtMs + RECENT_MS <= nowMs) known.triedAtMs = nowMs
    },
    note(entry, milliseconds, nowMs) {
      const known = answersOf(entry)
      known.newest.push({ milliseconds, atMs: nowMs })
      if (known.newest.length > SAMPLES) known.newest.shift()
      known.median = null
    },
    medianMs(entry, nowMs) {
      const known = answers.get(entry)
      if (known === undefined) return 0
      if (known.median === null || known.median.untilMs <= nowMs) known.median = medianOf(known, nowMs)
      if (known.newest.length > 0) return known.median.milliseconds
      return known.triedAtMs + RECENT_MS <= nowMs ? 0 : nowMs - known.triedAtMs
    },
  }
}

/** The median of the recent answers, and until when all of them stay recent. */
function medianOf({ newest }: Answers, nowMs: number): Answers['median'] & {} {
  while (newest[0] !== undefined && newest[0].atMs + RECENT_MS <= nowMs) newest.shift()
  const sorted = newest.map(({ milliseconds }) => milliseconds).sort((a, b) => a - b)
  const untilMs = newest[0] === undefined ? Number.POSITIVE_INFINITY : newest[0].atMs + RECENT_MS
  return { milliseconds: sorted[Math.floor(sorted.length / 2)] ?? 0, untilMs }
}
