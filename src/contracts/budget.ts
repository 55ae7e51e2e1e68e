import type { CancelSignal } from './cancellation.ts'
/**
 * The process-wide count of bytes held for bodies and answers. With `workspace` they count against the share of
 * that workspace, and whoever gives them back names the same one.
 */
export interface ByteBudget {
  /** Bytes that may be held. */
  readonly limit: number
  /** Bytes held now; may pass `limit` by what was charged by force. */
  readonly used: number
  /** Takes `bytes` whatever is left: for what has arrived already. */
  charge(bytes: number, workspace?: string): void
  /** Takes `bytes` if they fit and it is no one else's turn; else nothing, and false. */
  tryReserve(bytes: number, workspace?: string): boolean
  /** Gives back what was charged or reserved. */
  refund(bytes: number, workspace?: string): void
  /**
   * Takes `bytes` as soon as they fit and it is the caller's turn; absent where waiting is not possible.
   *
   * @returns false, with nothing taken, after `waitMs`, on abort, or at once when `bytes` can never fit
   */
  reserve?(bytes: number, options: ReserveOptions): Promise<boolean>
  /** Whether it holds more than its share of memory that others want, the bytes that `own` tells not counted. */
  isOver?(workspace: string, own?: () => number): boolean
  /** Registers a holder from whom memory can be taken back; absent where it never is. */
  enrol?(holder: MemoryHolder): void
  /** Forgets a holder. Idempotent. */
  dismiss?(holder: MemoryHolder): void
}

export interface ReserveOptions {
  /** Workspace whose share the bytes count against, also when they are given back. */
  readonly workspace: string
  readonly waitMs: number
  readonly signal: CancelSignal
  /**
   * Bytes that came before their turn, and come free when there is none. Who holds some, and waits for more than the
   * share of its workspace, may be refused sooner: when a workspace within its share finds nothing.
   */
  readonly heldBytes?: () => number
  /** It waits until its workspace is within its share, for nothing but to keep what it holds. */
  readonly keeps?: true
}

/** A body that arrives or an answer that is read: as fast as the client likes, and memory is held all that time. */
export interface MemoryHolder {
  readonly workspace: string
  /** How fast it gets on; null: too early to tell, or it is held up by this side. */
  pace(nowMs: number): HolderPace | null
  /** Gives back, at once, what is set aside for bytes that have not come. */
  shrink?(): void
  /**
   * Ends the request.
   *
   * @returns bytes that are given back later; all others have been on return
   */
  end(): number
}

export interface HolderPace {
  readonly bytesPerSecond: number
  /** Bytes until it ends; infinite where it is unknown. */
  readonly bytesLeft: number
}

/** Longest time that a body or an answer waits for memory. */
export const MEMORY_WAIT_MS = 5_000
