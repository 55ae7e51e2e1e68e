/**
 * Makes a function of which one run is under way at a time. Who calls it while one is, shares with all others who do
 * the run after it: every caller has one that began behind its call. A run that fails fails for those who share it.
 */
export function oneAtATime(run: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | null = null
  /** Not begun yet; null: none is waited for. */
  let next: Promise<void> | null = null

  function begin(): Promise<void> {
    next = null
    running = run().finally(() => {
      if (next === null) running = null
    })
    return running
  }

  return () => {
    if (running === null) return begin()
    next ??= running.then(begin, begin)
    return next
  }
}
