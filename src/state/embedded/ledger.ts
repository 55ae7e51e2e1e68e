import type { Beginning, Begun, Cancellation, Settled, Settlement, SlotView } from '../../schema/ledger.ts'
import type { Reservations } from './reservations.ts'
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
    begin({ token, workspace, slot, reservation }: Beginning): Begun {
      const nowMs = now()
      if (slot) {
        if (slots.runs(workspace, slot.id, token, nowMs)) return { state: 'begun' }
        const held = slots.look(workspace, slot.id, nowMs)
        if (held.state !== 'free') return held
      }
      if (tokens.knows(workspace, token, 'cancelled', nowMs)) return { state: 'refused', why: 'voided' }
      const shortage = reservation && reservations.reserve(workspace, token, reservation, nowMs)
      if (shortage) return { state: 'refused', why: shortage }
      if (slot) slots.claim(workspace, slot, token, nowMs)
      return { state: 'begun' }
    },

    settle({ token, workspace, slot, charge }: Settlement): Settled {
      const nowMs = now()
      if (charge) reservations.settle(workspace, token, charge, nowMs)
      return { slotHeld: slot !== null && slots.end(workspace, slot.id, token, slot.end, nowMs) }
    },

    cancel({ token, workspace, slotId }: Cancellation): void {
      const nowMs = now()
      tokens.remember(workspace, token, 'cancelled', nowMs + CANCELLED_MS)
      reservations.undo(workspace, token, nowMs)
      if (slotId !== null) slots.end(workspace, slotId, token, { state: 'released' }, nowMs)
    },

    look: (workspace: string, slotId: string): SlotView => slots.look(workspace, slotId, now()),
  }
}
