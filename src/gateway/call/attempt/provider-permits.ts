import type { Entry } from '../../../contracts/catalog.ts'
import { callLimit, type PermitLimit } from '../../../contracts/permits.ts'
import type { Failure } from '../../../contracts/upstream.ts'

/** The permit that an attempt at an entry needs. */
export interface AttemptPermit {
  readonly limit: PermitLimit
  /** How long the attempt waits for it before another entry is tried. A job waits for as long as it may take. */
  readonly queueMs: number
  /** How the attempt fails that gets none: nothing was sent. */
  readonly busy: Failure
}

/** Null: the entry may be tried at once. */
export type PermitOf = (entry: Entry) => AttemptPermit | null

/** How soon a caller may try again for whom there was no permit. */
const BUSY = { kind: 'busy', status: null, retryAfterMs: 1_000, providerMessage: null } as const
const BUSY_CALLS: Failure = { ...BUSY, reason: 'the account has as many calls at once as it may' }
const BUSY_SESSIONS: Failure = { ...BUSY, reason: 'the account has as many live sessions at once as it may' }

/** The account has no tokens, or seconds of audio, for so long. */
export function spentFor(retryAfterMs: number): Failure {
  return { ...BUSY, retryAfterMs, reason: 'the account has had as much this minute as it may' }
}

/** Calls of all kinds but live sessions share the permits of their account. */
export const callPermit: PermitOf = ({ provider: { name, concurrency, queueMs } }) =>
  concurrency === null ? null : { limit: callLimit(name, concurrency), queueMs, busy: BUSY_CALLS }

/** The permits of live sessions, which providers count apart. A caller who speaks waits for none. */
export const sessionPermit: PermitOf = ({ provider, facts }) => {
  const most = facts.live?.limits.max_sessions
  if (most === undefined) return null
  return { limit: { name: `live:account:${provider.name}`, most }, queueMs: 0, busy: BUSY_SESSIONS }
}
