import type { DatabaseSync } from 'node:sqlite'
import type { SlotClaim, SlotEnd, SlotView, StoredResult } from '../../schema/ledger.ts'

export interface Slots {
  look(workspace: string, id: string, nowMs: number): SlotView
  /** Whether the token has it, running, within its lease. */
  runs(workspace: string, id: string, token: string, nowMs: number): boolean
  /** Makes a free slot run; whoever calls has looked. */
  claim(workspace: string, claim: SlotClaim, token: string, nowMs: number): void
  /** @returns whether it ended as told; false: the token does not hold it, or no longer */
  end(workspace: string, id: string, token: string, end: SlotEnd, nowMs: number): boolean
  /** Forgets up to `limit` slots whose time is over. */
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
 * Idempotency slots. That a lease has run out is nowhere written: the row says until when the slot runs and until when
 * it is remembered, and whoever reads it compares that with the time.
 */
export function createSlots(db: DatabaseSync): Slots {
  const find = db.prepare(`
    SELECT state, token, fingerprint, lease_until_ms, result
    FROM slots WHERE workspace = ? AND id = ? AND expires_at_ms > ?`)
  const claim = db.prepare(`
    INSERT OR REPLACE INTO slots (workspace, id, state, token, fingerprint, lease_until_ms, expires_at_ms)
    VALUES (?, ?, 'running', ?, ?, ?, ?)`)
  const end = db.prepare(`
    UPDATE slots SET state = ?, result = ?, expires_at_ms = ? WHERE workspace = ? AND id = ?`)
  const remove = db.prepare('DELETE FROM slots WHERE workspace = ? AND id = ?')
  const purge = db.prepare(`
    DELETE FROM slots WHERE rowid IN (SELECT rowid FROM slots WHERE expires_at_ms <= ? LIMIT ?)`)

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

    end(workspace, id, token, told, nowMs) {
      const slot = read(workspace, id, nowMs)
      if (slot?.token !== token || slot.overdue) return false
      // Settled before by the same token: the answer may have been lost.
      if (slot.state !== 'running') return slot.state === told.state
      if (told.state === 'released') remove.run(workspace, id)
      else {
        const result = told.state === 'stored' ? JSON.stringify(told.result) : null
        end.run(told.state, result, nowMs + told.ttlMs, workspace, id)
      }
      return true
    },

    purge: (nowMs, limit) => void purge.run(nowMs, limit),
  }
}
