/**
 * Runs something that many ask for: while it runs, all who come share the run after it, which begins later than they
 * came.
 */
export function oneAtATime(run: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | null = null
  let next: Promise<void> | null = null
  const start = (): Promise<void> => {
    running = run().finally(() => {
      running = null
    })
    return running
  }
  return () => {
    if (running === null) return start()
    next ??= running.then(start, start).finally(() => {
      next = null
    })
    return next
  }
}
