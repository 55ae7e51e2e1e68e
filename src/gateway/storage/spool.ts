import type { StoredBody } from '../../contracts/audio.ts'
import type { BodyWriter, Spool } from '../../contracts/spool.ts'
import { systemClock, type Timer } from '../../contracts/time.ts'
import { StoredBodyWriter } from './body-writer.ts'
import { createBudget } from './budget.ts'
import { createPartMemory } from './part-upload.ts'
import type { ArrivingWriter, BodyContext, SpoolDependencies, SpoolStats } from './spool-context.ts'
import { SPOOL_TIMING, UPLOADS_MAX } from './spool-context.ts'

interface ByteSpool extends Spool {
  stats(): SpoolStats
  /** Resolves when every object whose body was released has been deleted, or given up to the sweeper. */
  close(): Promise<void>
}

/**
 * Decides where bodies go and watches over them while they arrive. The rules, in order: a body whose length fits in the
 * memory budget is held; one that has to wait longer than `memoryWaitMs`, or whose sender turns out to be slow, streams
 * into the store; one that finds neither memory nor an upload permit is refused. A slow sender for whom there is no
 * permit keeps its memory only as long as no one else waits for it. Whatever a workspace holds beyond its share can be
 * taken back for another one; see `createBudget`.
 */
export function createSpool({ clock = systemClock, ...deps }: SpoolDependencies): ByteSpool {
  const timing = { ...SPOOL_TIMING, ...deps.timing }
  // Permits are given out by the rules of memory, and taken back by them.
  const permits = createBudget(deps.uploadsMax ?? UPLOADS_MAX, 0, clock)
  const arriving = new Set<ArrivingWriter>()
  const removals = new Set<Promise<void>>()
  const counts = { held: 0, stored: 0, demoted: 0, refused: 0, failed: 0 }
  let ticker: Timer | undefined

  function tick(): void {
    const nowMs = clock.now()
    for (const writer of arriving) writer.tick(nowMs)
  }

  const context: BodyContext = {
    budget: deps.budget,
    blocks: deps.blocks,
    objects: deps.objects,
    permits,
    partMemory: createPartMemory(deps.budget, clock),
    timing,
    holds: deps.holds,
    clock,
    count: (event) => {
      counts[event] += 1
    },
    enter(writer) {
      arriving.add(writer)
      deps.budget.enrol(writer)
      ticker ??= clock.every(timing.tickMs, tick).unref()
    },
    leave(writer) {
      arriving.delete(writer)
      deps.budget.dismiss(writer)
      if (arriving.size > 0) return
      ticker?.close()
      ticker = undefined
    },
    remove(key) {
      const removal = deps.objects
        .remove(key)
        .catch((error: unknown) => deps.log?.warn({ object: key, err: error }, 'object left to the sweeper'))
        .then(() => {
          removals.delete(removal)
        })
      removals.add(removal)
    },
  }

  return {
    open: (options) => new StoredBodyWriter(context, options),
    stats: () => ({ ...counts, arriving: arriving.size, uploading: permits.used }),
    async close() {
      ticker?.close()
      await Promise.all(removals)
    },
  }
}

/**
 * For bodies whose answer is known already: they are read to their end, checked and counted as all others, and no
 * byte of them is kept. The sender is never asked to stop, and there is no memory or store to wait for.
 */
export function createDiscardingSpool(): Spool {
  return { open: () => new DiscardedBody() }
}

class DiscardedBody implements BodyWriter {
  readonly ready = true
  onReady: () => void = () => {}
  onFailure: (error: Error) => void = () => {}
  #length = 0

  async start(): Promise<void> {}

  write(chunk: Uint8Array): void {
    this.#length += chunk.length
  }

  /** A body of that length with nothing in it: no reader can be asked for its audio. */
  async finish(): Promise<StoredBody> {
    return { source: { kind: 'memory', blocks: [] }, length: this.#length, release() {} }
  }

  async abort(): Promise<void> {}
}
