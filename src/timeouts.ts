import type { CancelSignal } from './cancellation.ts'

/** A timer that is set to more than this fires at once. */
export const LONGEST_TIMER_MS = 2 ** 31 - 1

/** Something took longer than it may. */
export class TimeoutError extends Error {
  override readonly name = 'TimeoutError'
}

/**
 * Waits for work that is under way already and cannot be stopped.
 *
 * @throws TimeoutError after `limitMs`; the work's own error
 */
export function within<T>(limitMs: number, work: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const late = () => reject(new TimeoutError(`no answer within ${limitMs} ms`))
    // After a long task of this process the timer fires before the socket is read: an answer that lies there counts.
    const timer = setTimeout(() => setImmediate(late), limitMs)
    work.then(resolve, reject).finally(() => clearTimeout(timer))
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
): Promise<T> {
  signal.throwIfAborted()
  const controller = new AbortController()
  const leave = () => controller.abort(signal.reason)
  const timer = setTimeout(() => {
    controller.abort(new TimeoutError(`took over ${Math.round(limitMs)} ms`))
  }, limitMs)
  signal.addEventListener('abort', leave, { once: true })
  try {
    return await step(controller.signal)
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', leave)
  }
}

/**
 * Waits for work until the signal aborts. The work itself goes on; its later outcome is ignored.
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
