import type { ByteBudget } from '../schema/budget.ts'

/** Bytes of an answer, charged to the budget while they are held. */
export interface Held {
  charge(bytes: number): void
  /** Gives back all that was charged so far. */
  release(): void
}

export function holdBytes(budget: ByteBudget): Held {
  let held = 0
  return {
    charge(bytes) {
      held += bytes
      budget.charge(bytes)
    },
    release() {
      budget.refund(held)
      held = 0
    },
  }
}
