import { randomBytes } from 'node:crypto'
import { newId } from '../../src/contracts/ids.ts'
import type {
  AccountTerms,
  AccountView,
  Beginning,
  ReservationTerms,
  SlotClaim,
  StoredResult,
} from '../../src/contracts/ledger.ts'
import type { State } from '../../src/contracts/state.ts'

/** A state that is empty at the start, and the time that it goes by. */
export interface StateUnderTest {
  readonly state: Pick<
    State,
    | 'ledger'
    | 'accounts'
    | 'keys'
    | 'settings'
    | 'jobs'
    | 'jobInputs'
    | 'outbox'
    | 'alerts'
    | 'console'
    | 'catalog'
  >
  /** Lets at least `ms` milliseconds pass on the clock of the state. */
  readonly pass: (ms: number) => Promise<void>
  /** Puts the clock of the state to a moment, epoch milliseconds; null where it cannot be moved. */
  readonly setClock: ((epochMs: number) => void) | null
}

/** So long that it does not end while a test runs. */
export const LONG_MS = 3_600_000

export const NO_TERMS: AccountTerms = { grant: null, trial: null, budgetMicros: null }

export const newWorkspace = () => `ws_${randomBytes(6).toString('hex')}`
export const newToken = () => newId('call')
/** As the gateway makes the ids of slots, and fingerprints. */
export const newDigest = () => randomBytes(32).toString('hex')

export function claimOf(id: string, over: Partial<SlotClaim> = {}): SlotClaim {
  return { id, fingerprint: 'f1', leaseMs: LONG_MS, ttlMs: LONG_MS, ...over }
}

/** Of a platform call without budgets: what is taken from the purse counts as spent as well. */
export function reserve(platformMicros: number, over: Partial<ReservationTerms> = {}): ReservationTerms {
  return {
    keyId: 'key_one',
    terms: NO_TERMS,
    keyBudgetMicros: null,
    platformMicros,
    spendMicros: platformMicros,
    leaseMs: LONG_MS,
    ...over,
  }
}

export function beginningOf(workspace: string, over: Partial<Omit<Beginning, 'workspace'>> = {}): Beginning {
  return { token: newToken(), workspace, slot: null, reservation: null, ...over }
}

export function resultOf(text: string): StoredResult {
  return { status: 200, headers: { 'content-type': 'application/json' }, body: { text } }
}

/** What of an account is the same wherever it is kept: no moments, and no keys that have spent nothing. */
export function figuresOf(view: AccountView) {
  const { booked, ...rest } = view
  const spent = Object.entries(view.spentByKey).filter(([, micros]) => micros !== 0)
  return {
    ...rest,
    bookedMicros: booked.months.reduce((sum, { micros }) => sum + micros, 0),
    grants: view.grants.map(({ id, micros }) => ({ id, micros })).sort((a, b) => (a.id < b.id ? -1 : 1)),
    spentByKey: Object.fromEntries(spent.sort(([a], [b]) => (a < b ? -1 : 1))),
  }
}
