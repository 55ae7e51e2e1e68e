import type { Principal } from '../../../contracts/catalog.ts'
import { newId } from '../../../contracts/ids.ts'
import type {
  Accounts,
  AccountView,
  CallLedger,
  Cancellation,
  Settled,
  Settlement,
  UsageBatch,
} from '../../../contracts/ledger.ts'
import { BATCH_SENT_MS } from '../../../contracts/ledger.ts'
import type { Logger } from '../../../contracts/log.ts'
import type { HeldEntry, MoneySource, UsageKeeper } from '../../../contracts/recorder.ts'
import { type Clock, sleep, systemClock, type Timer } from '../../../contracts/time.ts'

/** Pauses between tries while the state does not answer. */
const FIRST_PAUSE_MS = 100
const LONGEST_PAUSE_MS = 1_000
/** Ends of a workspace that are tried at a time: while the state is away, and once it takes one. */
const TRIED_AWAY = 4
const TRIED_BACK = 100
/** How long taking back a lost `begin` is tried at least: no `begin` arrives later than that. */
const CANCEL_MS = 60_000

/** Ends in the state what calls have begun there. What the state does not take at once is retried in the background. */
export interface Settlements {
  /**
   * Resolves when the state has taken it, or has failed to answer once: the caller's answer waits no longer. Retries
   * until `forMs` are over, when what was begun has ended by itself.
   *
   * @returns null when the outcome is not known yet
   */
  settle(settlement: Settlement, forMs: number): Promise<Settled | null>
  /** Takes back a `begin` whose answer was lost. @param forMs how long what it has begun lasts */
  cancel(cancellation: Cancellation, forMs: number): void
  /** Counts a call that continues when its caller leaves as pending. Settles as `call` does. */
  during<Value>(call: Promise<Value>): Promise<Value>
  /** Number of such calls, and of ends that the state has not taken yet. */
  readonly pending: number
  /** Gives up what the state has not taken yet. */
  close(): Promise<void>
}

export function createSettlements(ledger: CallLedger, log: Logger, clock: Clock = systemClock): Settlements {
  const firstTries = new Set<Promise<void>>()
  const backlogs = new Map<string, Backlog>()
  const closing = new AbortController()
  let calls = 0

  function tryLater(workspace: string, end: PendingEnd): void {
    let backlog = backlogs.get(workspace)
    if (backlog === undefined) {
      backlog = new Backlog({ log, clock }, closing.signal, () => void backlogs.delete(workspace))
      backlogs.set(workspace, backlog)
    }
    backlog.add(end)
  }

  return {
    settle(settlement, forMs) {
      const { token, workspace } = settlement
      const untilMs = clock.now() + forMs
      const first = ledger.settle(settlement).catch(() => null)
      const tried = first.then((settled) => {
        firstTries.delete(tried)
        if (settled !== null) return
        tryLater(workspace, { what: 'end', token, untilMs, send: () => ledger.settle(settlement) })
      })
      firstTries.add(tried)
      return first
    },
    cancel(cancellation, forMs) {
      const { token, workspace } = cancellation
      const untilMs = clock.now() + Math.max(CANCEL_MS, forMs)
      tryLater(workspace, { what: 'withdrawal', token, untilMs, send: () => ledger.cancel(cancellation) })
    },
    during(call) {
      calls += 1
      return call.finally(() => {
        calls -= 1
      })
    },
    get pending() {
      let untaken = 0
      for (const { size } of backlogs.values()) untaken += size
      return calls + firstTries.size + untaken
    },
    async close() {
      await Promise.all(firstTries)
      closing.abort()
      await Promise.all([...backlogs.values()].map(({ done }) => done))
    },
  }
}

/** An end that the state has not taken yet. */
interface PendingEnd {
  readonly what: 'end' | 'withdrawal'
  readonly token: string
  /** When it is given up, on the node's clock. */
  readonly untilMs: number
  readonly send: () => Promise<unknown>
}

/**
 * Retries the pending ends of one workspace. Only a few are tried at a time until the state takes one, however many
 * wait: retries must not make an outage worse. A workspace is kept in one place of the state, so that one end tells
 * about all of them.
 */
class Backlog {
  readonly done: Promise<void>
  /** In the order of their last try, oldest first. */
  readonly #waiting = new Set<PendingEnd>()
  readonly #log: Logger
  readonly #clock: Clock
  readonly #stop: AbortSignal

  /** @param onDone called when nothing is left: a later end needs another backlog */
  constructor(
    { log, clock }: { readonly log: Logger; readonly clock: Clock },
    stop: AbortSignal,
    onDone: () => void,
  ) {
    this.#log = log
    this.#clock = clock
    this.#stop = stop
    this.done = this.#work(onDone)
  }

  get size(): number {
    return this.#waiting.size
  }

  add(end: PendingEnd): void {
    this.#waiting.add(end)
  }

  async #work(onDone: () => void): Promise<void> {
    let pauseMs = FIRST_PAUSE_MS
    do {
      await sleep(this.#clock, pauseMs, { signal: this.#stop }).catch(() => {})
      this.#giveUp()
      let most = TRIED_AWAY
      while (await this.#try(most)) {
        most = TRIED_BACK
        pauseMs = FIRST_PAUSE_MS
      }
      pauseMs = Math.min(LONGEST_PAUSE_MS, pauseMs * 2)
    } while (this.#waiting.size > 0)
    onDone()
  }

  /** @returns whether the state took any of them */
  async #try(most: number): Promise<boolean> {
    const tried: Promise<boolean>[] = []
    for (const end of this.#waiting) {
      if (tried.length === most) break
      tried.push(this.#send(end))
    }
    return (await Promise.all(tried)).includes(true)
  }

  async #send(end: PendingEnd): Promise<boolean> {
    try {
      await end.send()
      this.#waiting.delete(end)
      return true
    } catch {
      // Logged once, when it is given up. The next time the others come first.
      if (this.#waiting.delete(end)) this.#waiting.add(end)
      return false
    }
  }

  /** Forgets ends whose time is over; all of them when the node stops. */
  #giveUp(): void {
    const nowMs = this.#clock.now()
    const over = [...this.#waiting].filter(({ untilMs }) => this.#stop.aborted || untilMs <= nowMs)
    for (const end of over) this.#waiting.delete(end)
    const [first] = over
    if (first === undefined) return
    const { what, token } = first
    this.#log.error({ what, token, count: over.length }, 'the state did not take the ends of calls')
  }
}

/** Longest time until usage is written. */
const FLUSH_MS = 1_000

/**
 * Sums up the cost of calls without a reservation, and writes it in batches. While the state is away the sums wait
 * here: their size follows the keys in use, not the calls. A node that dies loses the last second of them.
 */
export interface UsageBuffer {
  /** @param micros micro-USD */
  note(workspace: string, keyId: string, micros: number): void
  /** Counts what was charged to one key in a month for another one, if it is another. */
  move(workspace: string, month: string, fromKeyId: string, keyId: string, micros: number): void
  /** Writes the rest. Resolves also when the state does not take it, which is logged. */
  close(): Promise<void>
}

/** The parts of the gateway that a buffer of usage is made with. */
export interface UsageDependencies {
  readonly accounts: Pick<Accounts, 'addUsage'>
  readonly log: Logger
  readonly clock: Clock
  /** Absent: no record is kept of what calls came to. */
  readonly usageKeeper?: UsageKeeper | undefined
}

export function createUsageBuffer(deps: UsageDependencies): UsageBuffer {
  return new BatchingUsageBuffer(deps)
}

class BatchingUsageBuffer implements UsageBuffer, MoneySource {
  readonly #deps: UsageDependencies
  /** By workspace and month: the next batch, with micro-USD by key. */
  #noted = new Map<string, Omit<UsageBatch, 'spentMicros'> & { readonly spent: Map<string, number> }>()
  /** Batches that are being sent. */
  #sent: readonly UsageBatch[] = []
  #hasChanged = false
  /** A batch that the state may have taken: it is sent again unchanged, under its token. */
  #unsure: UsageBatch | null = null
  #unsureMs = 0
  #timer: Timer | null = null
  #flushing: Promise<void> = Promise.resolve()

  constructor(deps: UsageDependencies) {
    this.#deps = deps
    deps.usageKeeper?.keepMoney(this)
  }

  entries(isAll: boolean): HeldEntry[] {
    if (!this.#hasChanged && !isAll) return []
    this.#hasChanged = false
    const unsure = this.#unsure === null || this.#sent.includes(this.#unsure) ? [] : [this.#unsure]
    const usage = [...unsure, ...this.#sent, ...this.#batches()]
    if (usage.length > 0) return [{ key: 'usage', usage }]
    return isAll ? [] : [{ key: 'usage' }]
  }

  note(workspace: string, keyId: string, micros: number, month?: string): void {
    if (micros === 0) return
    const place = `${workspace} ${month}`
    const noted = this.#noted.get(place) ?? { token: newId('call'), workspace, month, spent: new Map() }
    this.#noted.set(place, noted)
    this.#hasChanged = true
    noted.spent.set(keyId, (noted.spent.get(keyId) ?? 0) + micros)
    if (this.#timer === null) this.#schedule()
  }

  move(workspace: string, month: string, fromKeyId: string, keyId: string, micros: number): void {
    if (fromKeyId === keyId) return
    this.note(workspace, fromKeyId, -micros, month)
    this.note(workspace, keyId, micros, month)
  }

  async close(): Promise<void> {
    await this.#flushing
    this.#timer?.close()
    await this.#flush()
    if (this.#unsure !== null) this.#deps.log.error('the usage of the last calls is lost')
  }

  #schedule(): void {
    const flush = () => {
      this.#flushing = this.#flush().then(() => {
        this.#timer = null
        if (this.#unsure !== null || this.#noted.size > 0) this.#schedule()
      })
    }
    this.#timer = this.#deps.clock.after(FLUSH_MS, flush).unref()
  }

  async #flush(): Promise<void> {
    const wasAway = this.#unsure !== null
    if (wasAway && this.#deps.clock.now() - this.#unsureMs > BATCH_SENT_MS) {
      this.#unsure = null
      this.#deps.log.error('usage of calls may be lost: the state was away for too long')
    }
    const unsure = this.#unsure
    const batches = [...(unsure === null ? [] : [unsure]), ...this.#takeNoted()]
    this.#unsure = null
    this.#sent = batches
    this.#deps.usageKeeper?.beforeReport()
    for (const [index, batch] of batches.entries()) {
      try {
        await this.#deps.accounts.addUsage(batch)
      } catch {
        // Unsent batches are joined with new usage, so that an outage piles nothing up.
        if (batch !== unsure) this.#unsureMs = this.#deps.clock.now()
        this.#unsure = batch
        for (const unsent of batches.slice(index + 1)) this.#putBack(unsent)
        break
      }
    }
    this.#sent = []
    this.#hasChanged = true
    if (this.#unsure !== null && !wasAway) {
      this.#deps.log.warn('the state does not take the usage of calls: it is kept here until it does')
    }
  }

  #takeNoted(): UsageBatch[] {
    const batches = this.#batches()
    this.#noted = new Map()
    return batches
  }

  #batches(): UsageBatch[] {
    return [...this.#noted.values()].map(({ spent, ...batch }) => {
      return { ...batch, spentMicros: Object.fromEntries(spent) }
    })
  }

  #putBack({ workspace, spentMicros, month }: UsageBatch): void {
    for (const [keyId, micros] of Object.entries(spentMicros)) this.note(workspace, keyId, micros, month)
  }
}

/** Longest age of a view, ms: however many callers look at an account, the state is asked once in this time. */
const FRESH_MS = 1_000
/** Above this number, stale views are dropped. */
const KEPT_MAX = 1_000

/** Views of accounts, at most a second old. */
export interface AccountViews {
  /** Resolves at once when the view is fresh. Null: the state does not answer. */
  of(workspace: Principal['workspace']): AccountView | null | Promise<AccountView | null>
}

/** @param giveBack reports first what calls of this node came to, and gives back what they left */
export function createAccountViews(
  accounts: Pick<Accounts, 'show'>,
  giveBack: (workspace: string) => Promise<unknown> | null = () => null,
  clock: Clock = systemClock,
): AccountViews {
  interface Look {
    readonly atMs: number
    readonly coming: Promise<AccountView | null>
    view?: AccountView | null
  }
  const looks = new Map<string, Look>()

  function look({ id, terms }: Principal['workspace'], atMs: number): Look {
    if (looks.size >= KEPT_MAX) {
      for (const [known, { atMs: then }] of looks) {
        if (atMs - then <= FRESH_MS) break
        looks.delete(known)
      }
    }
    const show = () => accounts.show(id, terms).catch(() => null)
    const coming = giveBack(id)?.then(show) ?? show()
    const fresh: Look = { atMs, coming }
    coming.then((view) => {
      fresh.view = view
    })
    // Keeps the oldest first.
    looks.delete(id)
    looks.set(id, fresh)
    return fresh
  }

  return {
    of(workspace) {
      const nowMs = clock.now()
      const known = looks.get(workspace.id)
      const { view, coming } = known && nowMs - known.atMs < FRESH_MS ? known : look(workspace, nowMs)
      return view === undefined ? coming : view
    },
  }
}
