import type { Principal } from '../../contracts/catalog.ts'
import { GatewayError } from '../../contracts/errors.ts'
import type { Limits } from '../../contracts/limits.ts'
import type { PermitLease, PermitLimit, Permits } from '../../contracts/permits.ts'

/** Limits of the sessions that one secret opens; it stands for a key and may do less than that. */
export interface LiveGrant {
  readonly id: string
  /** Sessions that may be open at once. */
  readonly maxSessions: number
  /** Length of each one; null: that of every session. */
  readonly maxSeconds: number | null
}

/** A limit of sessions and the name that its refusal has. */
interface SessionLimit extends PermitLimit {
  readonly limit: 'live_max_sessions_per_key' | 'live_max_sessions_per_workspace' | 'max_sessions'
}

/** A full node says so in the handshake; what all nodes have together is known once the socket is open. */
const RETRY_AFTER_MS = 5_000

/** Counts the open sessions of every kind over all nodes, by whom they belong to. */
export class SessionCounts {
  readonly #permits: Permits

  constructor(permits: Permits) {
    this.#permits = permits
  }

  /**
   * Compares with what this node has, which is all that can be known at once.
   *
   * @throws GatewayError RATE_LIMITED when the key, the workspace or the grant has as many sessions as it may
   */
  check(principal: Principal, limits: Limits, grant?: LiveGrant): void {
    const full = limitsOf(principal, limits, grant).find(({ name, most }) => this.#permits.held(name) >= most)
    if (full !== undefined) throw sessionRefusal(full)
  }

  /**
   * Counts a session.
   *
   * @throws GatewayError RATE_LIMITED when there are as many on all nodes as there may be
   */
  async add(principal: Principal, limits: Limits, grant?: LiveGrant): Promise<PermitLease> {
    const wanted = limitsOf(principal, limits, grant)
    const taken = await this.#permits.take(wanted)
    if ('lease' in taken) return taken.lease
    throw sessionRefusal(wanted.find(({ name }) => name === taken.full.name) ?? wanted[0]!)
  }
}

function limitsOf(
  { key, workspace }: Principal,
  { live_max_sessions_per_key, live_max_sessions_per_workspace }: Limits,
  grant?: LiveGrant,
): [SessionLimit, ...SessionLimit[]] {
  const [ofKey, ofWorkspace] = ['live_max_sessions_per_key', 'live_max_sessions_per_workspace'] as const
  return [
    { name: `live:key:${key.id}`, most: live_max_sessions_per_key, limit: ofKey },
    { name: `live:workspace:${workspace.id}`, most: live_max_sessions_per_workspace, limit: ofWorkspace },
    ...(grant === undefined
      ? []
      : [{ name: `live:grant:${grant.id}`, most: grant.maxSessions, limit: 'max_sessions' } as const]),
  ]
}

function sessionRefusal({ most, limit }: SessionLimit): GatewayError {
  const message = `at most ${most} live sessions may be open at once`
  return new GatewayError('RATE_LIMITED', message, { details: { limit }, retryAfterMs: RETRY_AFTER_MS })
}
