import type { Logger } from '../log.ts'
import type { Objects } from '../schema/objects.ts'

/**
 * Age from which a spool object is nobody's: twice what receiving a body (15 min) and all attempts of a call can take
 * together, so it is never another node's live one. Ages are by the store's clock against ours; no sane pair differs
 * by that much.
 */
const STALE_MS = 60 * 60_000
/** How often is looked; each round costs one listing. */
const INTERVAL_MS = 10 * 60_000
/** Part of the interval by which nodes are spread. */
const JITTER = 0.2

/** After every date, also after those of a clock that was wrong. */
const ANY_DATE = new Date(8.64e15)

export interface SweeperOptions {
  readonly objects: Objects
  readonly log: Logger
  /** True when no other process uses the store: then everything in `spool/` at the start is of an earlier boot. */
  readonly alone: boolean
  readonly now?: () => number
  readonly staleMs?: number
  readonly intervalMs?: number
}

export interface Sweeper {
  /** Ends the rounds; resolves when the one under way has. */
  stop(): Promise<void>
}

export interface Swept {
  readonly objects: number
  readonly uploads: number
}

/**
 * Deletes what crashes leave in the store. The first round is over when the promise resolves; a store that is away is
 * logged and met again with the next round.
 */
export async function startSweeper(options: SweeperOptions): Promise<Sweeper> {
  const { objects, log, alone, now = Date.now, staleMs = STALE_MS, intervalMs = INTERVAL_MS } = options
  const round = async (before: Date) => {
    try {
      const swept = await sweep(objects, before)
      if (swept.objects + swept.uploads > 0) log.info(swept, 'swept')
    } catch (error) {
      log.warn({ err: error }, 'sweep failed')
    }
  }
  let running = round(alone ? ANY_DATE : new Date(now() - staleMs))
  await running
  const spread = intervalMs * (1 + JITTER * (Math.random() - 0.5))
  const timer = setInterval(() => {
    running = running.then(() => round(new Date(now() - staleMs)))
  }, spread)
  timer.unref()
  return {
    stop() {
      clearInterval(timer)
      return running
    },
  }
}

/**
 * Deletes spool objects that appeared before `before` and ends part uploads of any kind that began before it.
 *
 * @throws GatewayError DEPENDENCY_UNAVAILABLE when the store fails
 */
export async function sweep(objects: Objects, before: Date): Promise<Swept> {
  let removed = 0
  for await (const { key, modifiedAt } of objects.list('spool/')) {
    if (modifiedAt >= before) continue
    await objects.remove(key)
    removed += 1
  }
  return { objects: removed, uploads: await objects.abortUploads('', before) }
}
