import type { Principal } from '../contracts/catalog.ts'
import { GatewayError } from '../errors.ts'
import type { Limits } from '../limits.ts'

/** Limits of the sessions that one secret opens; it stands for a key and may do less than that. */
export interface LiveGrant {
  readonly id: string
  /** Sessions that may be open at once. */
  readonly maxSessions: number
  /** Length of each one; null: that of every session. */
  readonly maxSeconds: number | null
}

/** Counts the open sessions of every kind, by whom they belong to. */
export class SessionCounts {
  readonly #byKey = new Map<string, number>()
  readonly #byWorkspace = new Map<string, number>()
  readonly #byGrant = new Map<string, number>()

  /** @throws GatewayError RATE_LIMITED when the key, the workspace or the grant has as many sessions as it may */
  check({ key, workspace }: Principal, limits: Limits, grant?: LiveGrant): void {
    checkCount(this.#byKey.get(key.id), 'live_max_sessions_per_key', limits.live_max_sessions_per_key)
    const most = limits.live_max_sessions_per_workspace
    checkCount(this.#byWorkspace.get(workspace.id), 'live_max_sessions_per_workspace', most)
    if (grant !== undefined) checkCount(this.#byGrant.get(grant.id), 'max_sessions', grant.maxSessions)
  }

  /** Counts a session. @returns takes it off again, once */
  add({ key, workspace }: Principal, grant?: LiveGrant): () => void {
    const count = (change: number) => {
      if (grant !== undefined) add(this.#byGrant, grant.id, change)
      add(this.#byKey, key.id, change)
      add(this.#byWorkspace, workspace.id, change)
    }
    count(1)
    let isCounted = true
    return () => {
      if (isCounted) count(-1)
      isCounted = false
    }
  }
}

function add(counts: Map<string, number>, id: string, change: number): void {
  const count = (counts.get(id) ?? 0) + change
  if (count > 0) counts.set(id, count)
  else counts.delete(id)
}

function checkCount(count: number | undefined, limit: string, most: number): void {
  if ((count ?? 0) < most) return
  const message = `at most ${most} live sessions may be open at once`
  throw new GatewayError('RATE_LIMITED', message, { details: { limit } })
}
