/** Use of an allowance by one workspace. */
export class Share {
  turn = 0
  taken = 0
}

/**
 * So many may be taken in a turn. A workspace gets no more than what it leaves for the others: half of it when it comes
 * first, so that the busiest never takes all.
 */
export class Allowance {
  readonly #each: number
  #turn = 1
  #left: number

  constructor(each: number) {
    this.#each = each
    this.#left = each
  }

  /** Begins the next turn. */
  renew(): void {
    this.#turn += 1
    this.#left = this.#each
  }

  take(share: Share): boolean {
    if (share.turn !== this.#turn) {
      share.turn = this.#turn
      share.taken = 0
    }
    if (share.taken >= this.#left) return false
    share.taken += 1
    this.#left -= 1
    return true
  }
}
