import type { ByteBudget } from '../schema/budget.ts'
import type { Trail } from './gateway.ts'

/** Bytes of an answer, charged to the share of the caller's workspace while they are held. */
export interface Held {
  /** @param bytes negative: they are not held any more */
  charge(bytes: number): void
  /** Gives back all that was charged so far. */
  release(): void
}

export function holdBytes(budget: ByteBudget, { principal }: Pick<Trail, 'principal'>): Held {
  const workspace = principal?.workspace.id
  let held = 0
  return {
    charge(bytes) {
      held += bytes
      if (bytes < 0) budget.refund(-bytes, workspace)
      else budget.charge(bytes, workspace)
    },
    release() {
      budget.refund(held, workspace)
      held = 0
    },
  }
}
