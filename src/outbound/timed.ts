/** A step took longer than it may. */
export class TimeOver extends Error {
  override readonly name = 'TimeOver'
}

/**
 * Does a step that may take so long and no longer.
 *
 * @param step has to end what it began and to reject when its signal aborts
 * @throws what `step` rejects with: its signal's reason is TimeOver after `limitMs`, else that of `signal`
 */
export async function timed<T>(
  limitMs: number,
  signal: AbortSignal,
  step: (ended: AbortSignal) => Promise<T>,
): Promise<T> {
  signal.throwIfAborted()
  const controller = new AbortController()
  const leave = () => controller.abort(signal.reason)
  const timer = setTimeout(() => controller.abort(new TimeOver(`took over ${limitMs} ms`)), limitMs)
  signal.addEventListener('abort', leave, { once: true })
  try {
    return await step(controller.signal)
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', leave)
  }
}
