import type {
  Beginning,
  Begun,
  Cancellation,
  JobClaim,
  Settled,
  Settlement,
  SlotView,
} from '../../schema/ledger.ts'
import type { Holder, Reservations } from './reservations.ts'
import type { Slots } from './slots.ts'
import type { Tokens } from './tokens.ts'

/** How long a cancelled call cannot begin: far longer than a message to the state can be under way. */
const CANCELLED_MS = 120_000

interface LedgerParts {
  readonly slots: Slots
  readonly reservations: Reservations
  readonly tokens: Tokens
  readonly now: () => number
}

/** The methods of `CallLedger`, each within a transaction of its caller. */
export function createLedger({ slots, reservations, tokens, now }: LedgerParts) {
  return {
    begin({ token, workspace, slot, reservation, claim }: Beginning): Begun {
      const nowMs = now()
      if (slot) {
        if (slots.runs(workspace, slot.id, token, nowMs)) return { state: 'begun' }
        const held = slots.look(workspace, slot.id, nowMs)
        if (held.state !== 'free') return held
      }
      const voided = tokens.knows(workspace, cancelledToken(token, claim), 'cancelled', nowMs)
      if (voided) return { state: 'refused', why: 'voided' }
      const why = reservation && reservations.reserve(holderOf(workspace, token, claim), reservation, nowMs)
      if (why) return { state: 'refused', why }
      if (slot) slots.claim(workspace, slot, token, nowMs)
      return { state: 'begun' }
    },

    settle({ token, workspace, slot, charge, claim }: Settlement): Settled {
      const nowMs = now()
      const charged = charge !== null && reservations.settle(holderOf(workspace, token, claim), charge, nowMs)
      return { slotHeld: slot !== null && slots.end(workspace, slot.id, token, slot.end, nowMs), charged }
    },

    cancel({ token, workspace, slotId, claim }: Cancellation): void {
      const nowMs = now()
      tokens.remember(workspace, cancelledToken(token, claim), 'cancelled', nowMs + CANCELLED_MS)
      reservations.undo(holderOf(workspace, token, claim), nowMs)
      if (slotId !== null) slots.end(workspace, slotId, token, { state: 'released' }, nowMs)
    },

    look: (workspace: string, slotId: string): SlotView => slots.look(workspace, slotId, now()),
  }
}

/** Claims of jobs count from 1. */
function holderOf(workspace: string, token: string, claim: JobClaim | undefined): Holder {
  return { workspace, token, claim: claim?.number ?? 0 }
}

/** What is remembered when a token, or one claim of it, must not begin. */
function cancelledToken(token: string, claim: JobClaim | undefined): string {
  return claim === undefined ? token : `${token}#${claim.number}`
}
