import type {
  CallLedger,
  JobClaim,
  SlotClaim,
  SlotEnd,
  SlotView,
  StoredResult,
} from '../../../contracts/ledger.ts'
import type { Holder, Reservations } from './accounts.ts'
import { createPurge, type StateDatabase } from './database.ts'
import type { Operations } from './subjects.ts'
import type { Tokens } from './tokens.ts'

interface Slots {
  look(workspace: string, id: string, nowMs: number): SlotView
  /** Whether the token holds the slot, running, within its lease. */
  runs(workspace: string, id: string, token: string, nowMs: number): boolean
  /** Makes a slot run that the caller has found free. */
  claim(workspace: string, claim: SlotClaim, token: string, nowMs: number): void
  /** @returns whether it ended as told; false: the token does not hold it, or no longer */
  end(workspace: string, id: string, token: string, end: SlotEnd, nowMs: number): boolean
  /** Deletes up to `limit` expired slots. */
  purge(nowMs: number, limit: number): void
}

type Row = {
  readonly state: 'running' | 'stored' | 'burned'
  readonly token: string
  readonly fingerprint: string
  readonly lease_until_ms: number
  readonly result: string | null
}

/**
 * Idempotency slots. The end of a lease is never written down: the row says until when the slot runs and until when it
 * is remembered, and readers compare that with the time.
 */
export function createSlots(db: StateDatabase): Slots {
  const find = db.prepare(`
    SELECT state, token, fingerprint, lease_until_ms, result
    FROM slots WHERE workspace = ? AND id = ? AND expires_at_ms > ?`)
  const claim = db.prepare(`
    INSERT OR REPLACE INTO slots (workspace, id, state, token, fingerprint, lease_until_ms, expires_at_ms)
    VALUES (?, ?, 'running', ?, ?, ?, ?)`)
  const end = db.prepare(`
    UPDATE slots SET state = ?, result = ?, expires_at_ms = ? WHERE workspace = ? AND id = ?`)
  const remove = db.prepare('DELETE FROM slots WHERE workspace = ? AND id = ?')
  const read = (workspace: string, id: string, nowMs: number) => {
    const row = find.get(workspace, id, nowMs) as Row | undefined
    return row && { ...row, overdue: row.state === 'running' && row.lease_until_ms <= nowMs }
  }

  return {
    look(workspace, id, nowMs) {
      const slot = read(workspace, id, nowMs)
      if (!slot) return { state: 'free' }
      if (slot.state === 'stored')
        return {
          state: 'stored',
          fingerprint: slot.fingerprint,
          result: JSON.parse(slot.result ?? '') as StoredResult,
        }
      return { state: slot.overdue ? 'burned' : slot.state }
    },

    runs(workspace, id, token, nowMs) {
      const slot = read(workspace, id, nowMs)
      return slot?.token === token && slot.state === 'running' && !slot.overdue
    },

    claim(workspace, { id, fingerprint, leaseMs, ttlMs }, token, nowMs) {
      claim.run(workspace, id, token, fingerprint, nowMs + leaseMs, nowMs + leaseMs + ttlMs)
    },

    end(workspace, id, token, reported, nowMs) {
      const slot = read(workspace, id, nowMs)
      if (slot?.token !== token || slot.overdue) return false
      // The same token settled it before, and the answer may have been lost.
      if (slot.state !== 'running') return slot.state === reported.state
      if (reported.state === 'released') remove.run(workspace, id)
      else {
        const result = reported.state === 'stored' ? JSON.stringify(reported.result) : null
        end.run(reported.state, result, nowMs + reported.ttlMs, workspace, id)
      }
      return true
    },

    purge: createPurge(db, 'slots', 'expires_at_ms'),
  }
}

/** How long a cancelled call cannot begin: far longer than a message to the state can be under way. */
const CANCELLED_MS = 120_000

interface LedgerDependencies {
  readonly slots: Slots
  readonly reservations: Reservations
  readonly tokens: Tokens
  readonly now: () => number
}

export function createLedger({
  slots,
  reservations,
  tokens,
  now,
}: LedgerDependencies): Operations<CallLedger> {
  return {
    begin({ token, workspace, slot, reservation, claim }) {
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

    settle({ token, workspace, slot, charge, claim }) {
      const nowMs = now()
      const holder = holderOf(workspace, token, claim)
      const ended = charge === null ? { charged: false } : reservations.settle(holder, charge, nowMs)
      return { slotHeld: slot !== null && slots.end(workspace, slot.id, token, slot.end, nowMs), ...ended }
    },

    cancel({ token, workspace, slotId, claim }) {
      const nowMs = now()
      tokens.remember(workspace, cancelledToken(token, claim), 'cancelled', nowMs + CANCELLED_MS)
      reservations.undo(holderOf(workspace, token, claim), nowMs)
      if (slotId !== null) slots.end(workspace, slotId, token, { state: 'released' }, nowMs)
    },

    lease(leasing) {
      const nowMs = now()
      const { workspace, token } = leasing
      if (tokens.knows(workspace, token, 'cancelled', nowMs)) return { state: 'over' }
      return reservations.lease(leasing, nowMs)
    },

    recover: (money) => reservations.recover(money, now()),
    look: (workspace, slotId) => slots.look(workspace, slotId, now()),
  }
}

/** Claims of jobs count from 1; 0 stands for a call. */
function holderOf(workspace: string, token: string, claim: JobClaim | undefined): Holder {
  return { workspace, token, claim: claim?.number ?? 0 }
}

/** Names a token, or one claim of it, that must not begin. */
function cancelledToken(token: string, claim: JobClaim | undefined): string {
  return claim === undefined ? token : `${token}#${claim.number}`
}
