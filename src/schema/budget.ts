/** The process-wide count of bytes held for bodies and answers. */
export interface ByteBudget {
  /** Bytes that may be held. */
  readonly limit: number
  /** Bytes held now; may pass `limit` by what was charged by force. */
  readonly used: number
  /** Takes `bytes` whatever is left: for what has arrived already. */
  charge(bytes: number): void
  /** Takes `bytes` if they fit; else nothing, and false. */
  tryReserve(bytes: number): boolean
  /** Gives back what was charged or reserved. */
  refund(bytes: number): void
}
