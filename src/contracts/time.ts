import type { CancelSignal } from './cancellation.ts'

/** A timer that is set to more than this fires at once. */
export const LONGEST_TIMER_MS = 2 ** 31 - 1

/** A callback that waits for its time. Node's own timers are such. */
export interface Timer {
  /** Cancels it; without effect if it has fired. */
  close(): unknown
  /** Lets the process end while it waits. */
  unref(): Timer
  /** Starts its time again. */
  refresh(): unknown
}

/**
 * The only source of time of a node, handed down with its dependencies: a test that passes a clock of its own decides
 * when leases end, breakers close and retries are due.
 */
export interface Clock {
  /** Milliseconds on a clock that never goes back and that runs while the process is stopped: for durations. */
  now(): number
  /** Epoch milliseconds, which an operator may set: for moments that are stored or told. */
  wallNow(): number
  /** Calls `run` once, `ms` from now. */
  after(ms: number, run: () => void): Timer
  /** Calls `run` every `ms`, first `ms` from now. */
  every(ms: number, run: () => void): Timer
}

/** The machine's clock. */
export const systemClock: Clock = Object.freeze({
  now: () => performance.now(),
  wallNow: () => Date.now(),
  after: (ms: number, run: () => void) => setTimeout(run, ms),
  every: (ms: number, run: () => void) => setInterval(run, ms),
})

/**
 * Waits `ms`.
 *
 * @param options.signal ends the wait
 * @param options.ref    false: the process may end meanwhile
 * @throws the signal's reason once it aborts
 */
export function sleep(
  clock: Clock,
  ms: number,
  { signal, ref = true }: { readonly signal?: CancelSignal; readonly ref?: boolean } = {},
): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason)
    const timer = clock.after(ms, () => {
      signal?.removeEventListener('abort', leave)
      resolve()
    })
    if (!ref) timer.unref()
    signal?.addEventListener('abort', leave, { once: true })
    function leave(): void {
      timer.close()
      reject(signal?.reason)
    }
  })
}

/** Resolves in a later turn of the event loop, when its sockets have had theirs. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

const waiting: (() => void)[] = []

/**
 * Resolves in a later turn of the event loop, which it shares with no other that waits so: work on many recordings
 * takes no more of a turn than that on one.
 */
export function ownTurn(): Promise<void> {
  return new Promise((resolve) => {
    if (waiting.push(resolve) === 1) setImmediate(giveTurn)
  })
}

function giveTurn(): void {
  waiting.shift()?.()
  if (waiting.length > 0) setImmediate(giveTurn)
}

/** Something took longer than it may. */
export class TimeoutError extends Error {
  override readonly name = 'TimeoutError'
}

/** A signal that aborts with a TimeoutError after `ms`. The process may end before. */
export function deadline(clock: Clock, ms: number): AbortSignal {
  const controller = new AbortController()
  clock.after(ms, () => controller.abort(tooLong(ms))).unref()
  return controller.signal
}

const tooLong = (ms: number) => new TimeoutError(`took over ${Math.round(ms)} ms`)

/**
 * Waits for work that is under way already and cannot be stopped.
 *
 * @throws TimeoutError after `limitMs`; the work's own error
 */
export function within<T>(limitMs: number, work: Promise<T>, clock: Clock = systemClock): Promise<T> {
  return new Promise((resolve, reject) => {
    const late = () => reject(new TimeoutError(`no answer within ${limitMs} ms`))
    // After a long task of this process the timer fires before the socket is read: an answer that lies there counts.
    const timer = clock.after(limitMs, () => setImmediate(late))
    work.then(resolve, reject).finally(() => timer.close())
  })
}

/**
 * Runs a step that can be stopped, and stops it after a time limit or when the caller leaves.
 *
 * @param step must end whatever it began, and reject, when its signal aborts
 * @throws what `step` rejects with: its signal's reason is TimeoutError after `limitMs`, otherwise that of `signal`
 */
export async function timed<T>(
  limitMs: number,
  signal: CancelSignal,
  step: (ended: AbortSignal) => Promise<T>,
  clock: Clock = systemClock,
): Promise<T> {
  signal.throwIfAborted()
  const controller = new AbortController()
  const leave = () => controller.abort(signal.reason)
  const timer = clock.after(limitMs, () => controller.abort(tooLong(limitMs)))
  signal.addEventListener('abort', leave, { once: true })
  try {
    return await step(controller.signal)
  } finally {
    timer.close()
    signal.removeEventListener('abort', leave)
  }
}

/**
 * Waits for work until the signal aborts. The work itself continues; its later outcome is ignored.
 *
 * @throws the signal's reason; the work's own error
 */
export function unlessAborted<T>(signal: CancelSignal, work: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const leave = () => reject(signal.reason)
    if (signal.aborted) leave()
    else signal.addEventListener('abort', leave, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', leave))
  })
}
