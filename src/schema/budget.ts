/**
 * The process-wide count of bytes held for bodies and answers. With `app` they count against the share of
 * that app, and whoever gives them back names the same one.
 */
export interface ByteBudget {
  /** Bytes that may be held. */
  readonly limit: number
  /** Bytes held now; may pass `limit` by what was charged by force. */
  readonly used: number
  /** Takes `bytes` whatever is left: for what has arrived already. */
  charge(bytes: number, app?: string): void
  /** Takes `bytes` if they fit; else nothing, and false. */
  tryReserve(bytes: number, app?: string): boolean
  /** Gives back what was charged or reserved. */
  refund(bytes: number, app?: string): void
  /**
   * Takes `bytes` as soon as they fit and it is the caller's turn; absent where nobody can wait.
   *
   * @returns false, with nothing taken, after `waitMs`, on abort, or at once when `bytes` can never fit
   */
  reserve?(bytes: number, options: ReserveOptions): Promise<boolean>
}

export interface ReserveOptions {
  /** Whose share the bytes count against, also when they are given back. */
  readonly app: string
  readonly waitMs: number
  readonly signal: AbortSignal
}
