import type { Entry } from '../../../contracts/catalog.ts'
import { callLimit, type SlotLimit } from '../../../contracts/slots.ts'
import type { Failure } from '../../../contracts/upstream.ts'

/** The slot that an attempt at an entry needs. */
export interface AttemptSlot {
  readonly limit: SlotLimit
  /** How long the attempt waits for it before another entry is tried. A job waits for as long as it may take. */
  readonly queueMs: number
  /** How the attempt fails that gets none: nothing was sent. */
  readonly busy: Failure
}

/** Null: the entry may be tried at once. */
export type SlotOf = (entry: Entry) => AttemptSlot | null

/** How soon a caller may try again for whom there was no slot. */
const BUSY = { kind: 'busy', status: null, retryAfterMs: 1_000, providerMessage: null } as const
const BUSY_CALLS: Failure = { ...BUSY, reason: 'the account has as many calls at once as it may' }
const BUSY_SESSIONS: Failure = { ...BUSY, reason: 'the account has as many live sessions at once as it may' }

/** The account has no tokens, or seconds of audio, for so long. */
export function spentFor(retryAfterMs: number): Failure {
  return { ...BUSY, retryAfterMs, reason: 'the account has had as much this minute as it may' }
}

/** Calls of all kinds but live sessions share the slots of their account. */
export const callSlot: SlotOf = ({ provider: { name, concurrency, queueMs } }) =>
  concurrency === null ? null : { limit: callLimit(name, concurrency), queueMs, busy: BUSY_CALLS }

/** The slots of live sessions, which providers count apart. A caller who speaks waits for none. */
export const sessionSlot: SlotOf = ({ provider, facts }) => {
  const most = facts.live?.limits.max_sessions
  if (most === undefined) return null
  return { limit: { name: `live:account:${provider.name}`, most }, queueMs: 0, busy: BUSY_SESSIONS }
}
