import { oneAtATime } from '../../contracts/one-at-a-time.ts'
import { type Clock, systemClock, type Timer } from '../../contracts/time.ts'

/** With the time that the state may take to answer, what was changed there is in force on every node within 5 s. */
const POLL_MS = 1500
/** Part of the interval by which nodes are spread. */
const JITTER = 0.4
/** Readings on hints are this far apart, and ten times what one takes: an import changes thousands of keys. */
const HINTED_GAP_MS = 50
const HINTED_SHARE = 10

export interface PollingOptions {
  /** Rejects while the state is away. */
  readonly read: () => Promise<void>
  /** The first reading that failed, after one that did not. */
  readonly onAway: (error: unknown) => void
  /** The first one that did not, after one that failed. */
  readonly onBack: () => void
  readonly pollMs: number | undefined
  readonly clock?: Clock | undefined
}

/** Reads something of the state again and again, until `close`. Keeps no process alive. */
export interface Polling {
  /** Resolves when it was read for the first time, or could not be. Never rejects. */
  ready(): Promise<void>
  /** Reads now, after whatever reading is under way; all who ask meanwhile share one reading. Never rejects. */
  refresh(): Promise<void>
  /** It may have changed: reads soon, which is at once unless that has just been done. */
  hinted(): void
  close(): void
}

export function startPolling({
  read,
  onAway,
  onBack,
  pollMs = POLL_MS,
  clock = systemClock,
}: PollingOptions): Polling {
  let away = false
  let closed = false
  let timer: Timer | null = null
  let soon: Timer | null = null
  let nextHintedMs = 0

  async function attempt(): Promise<void> {
    if (closed) return
    try {
      await read()
      if (away && !closed) onBack()
      away = false
    } catch (error) {
      if (!away && !closed) onAway(error)
      away = true
    }
  }

  const refresh = oneAtATime(attempt)

  async function poll(): Promise<void> {
    await refresh()
    if (closed) return
    const spread = 1 + JITTER * (Math.random() - 0.5)
    timer = clock.after(pollMs * spread, () => void poll()).unref()
  }

  async function readOnHint(): Promise<void> {
    soon = null
    const beganMs = clock.now()
    nextHintedMs = beganMs + HINTED_GAP_MS
    await refresh()
    const endMs = clock.now()
    nextHintedMs = Math.max(nextHintedMs, endMs + HINTED_SHARE * (endMs - beganMs))
  }

  const first = poll()
  return {
    ready: () => first,
    refresh,
    hinted() {
      if (closed) return
      soon ??= clock.after(Math.max(0, nextHintedMs - clock.now()), () => void readOnHint()).unref()
    },
    close() {
      closed = true
      soon?.close()
      timer?.close()
    },
  }
}
