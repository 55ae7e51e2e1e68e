import { BLOCK_BYTES } from '../../contracts/audio.ts'
import type { ByteBudget, MemoryHolder, ReserveOptions } from '../../contracts/budget.ts'
import { type Clock, systemClock, type Timer } from '../../contracts/time.ts'
import { attempt } from './failure.ts'

/** A ByteBudget whose callers may wait for their turn, and that knows which workspace holds how much. */
export interface WaitingBudget extends ByteBudget {
  reserve(bytes: number, options: ReserveOptions): Promise<boolean>
  isOver(workspace: string, own?: () => number): boolean
  enrol(holder: MemoryHolder): void
  dismiss(holder: MemoryHolder): void
  /** Waiting callers of `reserve`. */
  readonly waiting: number
}

/** A client below this speed loses memory that others want: a few of them would hold all of it for minutes. */
export const SLOW_BYTES_PER_SECOND = 1_000_000
/** A body that will be complete within this time is never ended: sending it again would take longer. */
const FINISHES_SECONDS = 2
/**
 * Share that a workspace over its equal share leaves free while there are others. They find memory at once, before
 * anything has to be taken back.
 */
const HEADROOM = 0.25
/** Time that a workspace counts as one of the others after it asked for memory. */
const ASKED_LATELY_MS = 60_000
/** How often memory is taken back while it is waited for or the headroom is used up. */
const TAKE_BACK_MS = 100

/** So much is in use that streams through the store should do with little, and leave the rest to bodies. */
export function isScarce({ used, limit }: Pick<ByteBudget, 'used' | 'limit'>): boolean {
  return used > limit * (1 - HEADROOM)
}

/** Accounts with nothing in them that are kept: making one for each call of a workspace costs more than booking. */
const EMPTY_ACCOUNTS = 1_000

/** Accounts for `bytes` while `act` has them. @throws as `unavailable` makes it of any failure */
export async function accounted<Value>(
  budget: ByteBudget,
  bytes: number,
  act: () => Promise<Value>,
): Promise<Value> {
  budget.charge(bytes)
  return attempt(act).finally(() => budget.refund(bytes))
}

interface Account {
  held: number
  waiting: number
  /** There is something in it, as far as it was booked. */
  isUsed: boolean
  /** Made with the first holder. */
  holders: Set<MemoryHolder> | null
}

interface Waiter {
  readonly bytes: number
  readonly workspace: string
  readonly heldBytes: (() => number) | undefined
  readonly keeps: true | undefined
  grant(granted: boolean): void
}

/**
 * A count of units (bytes of memory, or upload permits) with a fair queue.
 *
 * The equal share is the limit divided by the workspaces that hold or want something. A caller whose workspace stays
 * within its share, counting what it holds and already waits for, queues in front; all others queue after them. The
 * place of a caller is settled when it arrives, so that granting is O(1) and one refund wakes exactly those whose bytes
 * now fit.
 *
 * A workspace may hold more than its share, all there is while it is alone. Where another has asked lately it leaves a
 * quarter free. When a workspace within its share finds nothing free, those over theirs lose what their clients do not
 * need: first memory set aside for bytes that have not arrived, then the requests that would take longest, and last
 * the turns of requests that hold something, wait for more than their share and hold others up in the meantime.
 * A request that is about to finish, is fast, or has only begun is never ended, so one of them always makes progress.
 *
 * @param limit    units that may be held
 * @param smallest requests of at most this many units pass the queue when they fit, so that a small body never waits
 *                 for a large one; the large one has the store to fall back on
 */
export function createBudget(
  limit: number,
  smallest: number = BLOCK_BYTES,
  clock: Clock = systemClock,
): WaitingBudget {
  return new FairBudget(limit, smallest, clock)
}

class FairBudget implements WaitingBudget {
  readonly limit: number
  readonly #smallest: number
  readonly #clock: Clock
  readonly #accounts = new Map<string, Account>()
  /** Accounts with something in them. */
  #usedAccounts = 0
  // Sets keep their order and forget a member in O(1), which a caller that gives up needs.
  readonly #within = new Set<Waiter>()
  readonly #over = new Set<Waiter>()
  used = 0
  /** Holders that were ended and have not given all back yet, with what is still to come of them. */
  readonly #ended = new Map<MemoryHolder, number>()
  /** Workspace that asked last, its time, and the time at which another one did. */
  #asker = ''
  #askedAtMs = Number.NEGATIVE_INFINITY
  #othersAskedAtMs = Number.NEGATIVE_INFINITY
  #timer: Timer | undefined
  /** Memory is being taken back for one caller: what comes free meanwhile is not for those who wait after it. */
  #taking = false

  constructor(limit: number, smallest: number, clock: Clock) {
    this.limit = limit
    this.#smallest = smallest
    this.#clock = clock
  }

  get waiting(): number {
    return this.#within.size + this.#over.size
  }

  charge(bytes: number, workspace?: string): void {
    this.used += bytes
    if (workspace !== undefined) this.#book(workspace, bytes, 0)
    if (this.used > this.limit * (1 - HEADROOM)) this.#watch()
  }

  tryReserve(bytes: number, workspace?: string): boolean {
    if (workspace === undefined) {
      if (this.used + bytes > this.limit) return false
    } else {
      this.#noteWaiting(workspace)
      if (!this.#isTurnOf(workspace, bytes)) return false
      if (!this.#fits(bytes, workspace) && !this.#isFreed(bytes, workspace)) return false
    }
    this.charge(bytes, workspace)
    return true
  }

  refund(bytes: number, workspace?: string): void {
    this.used -= bytes
    if (workspace !== undefined) this.#book(workspace, -bytes, 0)
    this.#grantWaiting()
  }

  async reserve(bytes: number, options: ReserveOptions): Promise<boolean> {
    if (bytes > this.limit || options.signal.aborted) return false
    if (options.keeps) this.#noteWaiting(options.workspace)
    else if (this.tryReserve(bytes, options.workspace)) return true
    return options.waitMs > 0 ? this.#wait(bytes, options) : false
  }

  isOver(workspace: string, own = () => 0): boolean {
    if (!isScarce(this) || this.#headroomOf(workspace) === 0) return false
    // One that asked lately has its share also while it holds nothing.
    const held = (this.#accounts.get(workspace)?.held ?? 0) - own()
    return held > Math.min(this.#shareOf(workspace), this.limit / 2)
  }

  enrol(holder: MemoryHolder): void {
    const account = this.#accountOf(holder.workspace)
    account.holders ??= new Set()
    account.holders.add(holder)
    this.#book(holder.workspace, 0, 0)
  }

  dismiss(holder: MemoryHolder): void {
    this.#ended.delete(holder)
    const account = this.#accounts.get(holder.workspace)
    if (account?.holders?.delete(holder)) this.#book(holder.workspace, 0, 0)
  }

  #wait(bytes: number, { workspace, waitMs, signal, heldBytes, keeps }: ReserveOptions): Promise<boolean> {
    const queue = !keeps && this.#isWithin(workspace, bytes) ? this.#within : this.#over
    this.#book(workspace, 0, bytes)
    this.#watch()
    return new Promise((resolve) => {
      const grant = (granted: boolean) => {
        timer.close()
        signal.removeEventListener('abort', giveUp)
        queue.delete(waiter)
        this.#book(workspace, 0, -bytes)
        resolve(granted)
        // A caller that gives up may have been the one that all after it waited for.
        if (!granted) this.#grantWaiting()
      }
      const giveUp = () => grant(false)
      const waiter: Waiter = { bytes, workspace, heldBytes, keeps, grant }
      const timer = this.#clock.after(waitMs, giveUp)
      signal.addEventListener('abort', giveUp, { once: true })
      queue.add(waiter)
    })
  }

  #grantWaiting(): void {
    if (this.#taking) return
    for (const queue of [this.#within, this.#over]) {
      for (const waiter of queue) {
        if (waiter.keeps ? this.isOver(waiter.workspace) : !this.#fits(waiter.bytes, waiter.workspace)) return
        this.charge(waiter.bytes, waiter.workspace)
        waiter.grant(true)
      }
    }
  }

  #noteWaiting(workspace: string): void {
    if (workspace !== this.#asker) {
      if (this.#asker !== '') this.#othersAskedAtMs = this.#askedAtMs
      this.#asker = workspace
    }
    this.#askedAtMs = this.#clock.now()
  }

  /** Units that `workspace` leaves free when it is over its share. */
  #headroomOf(workspace: string): number {
    const atMs = workspace === this.#asker ? this.#othersAskedAtMs : this.#askedAtMs
    return this.#clock.now() - atMs < ASKED_LATELY_MS ? this.limit * HEADROOM : 0
  }

  #shareOf(workspace: string): number {
    return this.limit / (this.#usedAccounts + (this.#accounts.get(workspace)?.isUsed ? 0 : 1))
  }

  #isWithin(workspace: string, bytes: number): boolean {
    const { held, waiting } = this.#accounts.get(workspace) ?? { held: 0, waiting: 0 }
    return held + waiting + bytes <= this.#shareOf(workspace)
  }

  /** No one waits before such a caller. */
  #isTurnOf(workspace: string, bytes: number): boolean {
    const small = bytes <= this.#smallest
    if (this.#isWithin(workspace, bytes)) return small || this.#within.size === 0
    return small ? this.#within.size === 0 : this.waiting === 0
  }

  #fits(bytes: number, workspace: string): boolean {
    const left = this.limit - this.used - bytes
    if (left < 0) return false
    const held = this.#accounts.get(workspace)?.held ?? 0
    // A workspace that has nothing may take all: a large body would wait for ever on a small node.
    if (held === 0 || held + bytes <= this.#shareOf(workspace)) return true
    return left >= this.#headroomOf(workspace)
  }

  /** Takes memory back for a workspace within its share. @returns whether `bytes` fit now */
  #isFreed(bytes: number, workspace: string): boolean {
    if (!this.#isWithin(workspace, bytes)) return false
    this.#takeBack(this.used + bytes - this.limit, workspace)
    return this.#fits(bytes, workspace)
  }

  /** Takes memory back, again and again, for those who wait and for the headroom. */
  #watch(): void {
    this.#timer ??= this.#clock.every(TAKE_BACK_MS, () => this.#relieve()).unref()
  }

  #relieve(): void {
    const [waiter] = this.#within
    const mark = this.limit - this.#headroomOf(this.#asker)
    if (waiter !== undefined) this.#takeBack(this.used + waiter.bytes - this.limit, waiter.workspace)
    else if (this.used > mark) this.#takeBack(this.used - mark)
    else if (this.#over.size === 0) {
      this.#timer?.close()
      this.#timer = undefined
    }
    this.#grantWaiting()
  }

  /**
   * Takes back what those over their share do not need: at most `missing`, and what belongs to the last of it.
   *
   * @param asker one within its share, for whom even fast senders give back what they have not brought yet
   */
  #takeBack(missing: number, asker?: string): void {
    if (missing <= 0) return
    const enough = this.used - missing
    const share = asker === undefined ? this.limit / this.#usedAccounts : this.#shareOf(asker)
    const over = heaviestOver(share, this.#accounts.values())
    this.#taking = true
    const nowMs = this.#clock.now()
    const slowest = over.map(({ holders }) => slowestOf(holders, nowMs))
    const shrinking = asker === undefined ? slowest : over.map(({ holders }) => holders)
    shrinkUntil(() => this.used <= enough, shrinking)
    // The share of an earlier look counts while it is on its way: a store may take a second to end an upload.
    let coming = [...this.#ended.values()].reduce((sum, units) => sum + units, 0)
    for (const [i, account] of over.entries()) {
      for (const holder of slowest[i] ?? []) {
        if (this.used - coming <= enough || account.held <= share) break
        account.holders?.delete(holder)
        coming += endHolder(holder, this.#ended)
      }
    }
    const ofHeadroom =
      this.#headroomOf(this.#asker) > 0 ? Math.min(share, this.limit / 2) : Number.POSITIVE_INFINITY
    const left = this.used - coming - enough
    if (left > 0) this.#refuseWaiting(left, asker === undefined ? ofHeadroom : share, asker)
    this.#taking = false
  }

  /** Ends the turns of others who wait for more than their share, the last first, until `missing` comes free. */
  #refuseWaiting(missing: number, share: number, asker?: string): void {
    let left = missing
    for (const waiter of [...this.#over].reverse()) {
      const heldBytes = waiter.heldBytes?.() ?? 0
      const { held = 0, waiting = 0 } = this.#accounts.get(waiter.workspace) ?? {}
      if (waiter.workspace === asker || heldBytes === 0 || held + waiting <= share) continue
      // For the headroom only answers that are read on: they wait for nothing but to keep what they have.
      if (asker === undefined && !waiter.keeps) continue
      left -= heldBytes
      waiter.grant(false)
      if (left <= 0) break
    }
  }

  #book(workspace: string, held: number, waiting: number): void {
    const account = this.#accountOf(workspace)
    account.held += held
    account.waiting += waiting
    const isUsed = account.held > 0 || account.waiting > 0 || (account.holders?.size ?? 0) > 0
    if (isUsed === account.isUsed) return
    account.isUsed = isUsed
    this.#usedAccounts += isUsed ? 1 : -1
  }

  #accountOf(workspace: string): Account {
    const known = this.#accounts.get(workspace)
    if (known !== undefined) return known
    if (this.#accounts.size - this.#usedAccounts >= EMPTY_ACCOUNTS)
      for (const [other, { isUsed }] of this.#accounts) if (!isUsed) this.#accounts.delete(other)
    const account = { held: 0, waiting: 0, isUsed: false, holders: null }
    this.#accounts.set(workspace, account)
    return account
  }
}

function shrinkUntil(isEnough: () => boolean, lists: Iterable<Iterable<MemoryHolder> | null>): void {
  for (const holders of lists) for (const holder of holders ?? []) if (!isEnough()) holder.shrink?.()
}

function heaviestOver(share: number, accounts: Iterable<Account>): Account[] {
  const over = [...accounts].filter(({ held, holders }) => holders !== null && held > share)
  return over.sort((a, b) => b.held - a.held)
}

/** Holders that can be ended, those that would need longest first. */
function slowestOf(holders: Iterable<MemoryHolder> | null, nowMs: number): MemoryHolder[] {
  const slow: { readonly holder: MemoryHolder; readonly seconds: number }[] = []
  for (const holder of holders ?? []) {
    const pace = holder.pace(nowMs)
    if (pace === null || pace.bytesPerSecond >= SLOW_BYTES_PER_SECOND) continue
    const seconds = pace.bytesLeft / Math.max(1, pace.bytesPerSecond)
    // Among bodies of unknown length the slowest comes first.
    const key = seconds === Number.POSITIVE_INFINITY ? 1e12 / Math.max(1, pace.bytesPerSecond) : seconds
    if (seconds > FINISHES_SECONDS) slow.push({ holder, seconds: key })
  }
  return slow.sort((a, b) => b.seconds - a.seconds).map(({ holder }) => holder)
}

/** @returns what is to come back later; one that was dismissed before its end returned has given back all */
function endHolder(holder: MemoryHolder, ended: Map<MemoryHolder, number>): number {
  ended.set(holder, 0)
  const later = holder.end()
  if (later > 0 && ended.has(holder)) ended.set(holder, later)
  else ended.delete(holder)
  return ended.get(holder) ?? 0
}
