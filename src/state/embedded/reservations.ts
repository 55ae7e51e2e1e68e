import type { Charge, Reservation, Shortage } from '../../schema/ledger.ts'
import type { Account, AccountRows } from './account-rows.ts'
import type { Grants } from './grants.ts'
import type { Purse, ReservationRow, ReservationRows } from './reservation-rows.ts'
import type { Tokens } from './tokens.ts'

/** Who sets money aside. */
export interface Holder {
  readonly workspace: string
  readonly token: string
  /** The claim of the job; 0: the token is used once. */
  readonly claim: number
}

export interface Reservations {
  /**
   * Sets the money aside, once per token. What an earlier claim of the token has set aside is taken over as it is; for
   * a token of a job that was charged nothing is.
   *
   * @returns what is missing; `voided`: a later claim has it; null: nothing
   */
  reserve(holder: Holder, reservation: Reservation, nowMs: number): Shortage | 'voided' | null
  /** Replaces what was set aside by what the call came to. @returns whether this very claim held it */
  settle(holder: Holder, charge: Charge, nowMs: number): boolean
  /** As if it had never been set aside; if this very claim holds it. */
  undo(holder: Holder, nowMs: number): void
  /** Counts up to `limit` reservations of the account whose lease is over as expired. The account is not yet saved. */
  expire(account: Account, nowMs: number, limit: number): void
  /** What calls under way have taken from the purses. */
  reservedMicros(workspace: string, nowMs: number): number
}

/** Expired reservations that one `reserve` counts; each was made by one, so that they cannot pile up. */
const EXPIRE_PER_RESERVE = 8
/** How long it is known that a job was charged: longer than any job may be under way. */
const CHARGED_MS = 30 * 24 * 3_600_000
const NOTHING: Charge = Object.freeze({ platformMicros: 0, spendMicros: 0 })

interface ReservationParts {
  readonly rows: ReservationRows
  readonly accounts: AccountRows
  readonly grants: Grants
  readonly tokens: Tokens
}

/** Money that is set aside for calls under way, and for jobs. */
export function createReservations(parts: ReservationParts): Reservations {
  const { rows, accounts, tokens } = parts
  return {
    reserve(holder, reservation, nowMs) {
      const { workspace, token, claim } = holder
      const row = rows.find(workspace, token)
      if (claim === 0) return row ? null : setAside(parts, holder, reservation, nowMs)
      if (row && row.lease_until_ms > nowMs) {
        if (row.claim > claim) return 'voided'
        rows.pass(workspace, token, claim, nowMs + reservation.leaseMs)
        return null
      }
      if (row) {
        const account = accounts.load(workspace, nowMs)
        expireRow(parts, account, row)
        accounts.save(account)
      }
      if (tokens.knows(workspace, token, 'charged', nowMs)) return null
      return setAside(parts, holder, reservation, nowMs)
    },

    settle(holder, charge, nowMs) {
      const { workspace, token, claim } = holder
      const ended = replace(parts, holder, charge, nowMs)
      const costs = charge.platformMicros > 0 || charge.spendMicros > 0
      if (ended && claim > 0 && costs) tokens.remember(workspace, token, 'charged', nowMs + CHARGED_MS)
      return ended
    },

    undo: (holder, nowMs) => void replace(parts, holder, NOTHING, nowMs),
    expire: (account, nowMs, limit) => expire(parts, account, nowMs, limit),
    reservedMicros: (workspace, nowMs) => rows.sumMicros(workspace, nowMs),
  }
}

/** Sets money aside for a token that has none. */
function setAside(
  parts: ReservationParts,
  { workspace, token, claim }: Holder,
  reservation: Reservation,
  nowMs: number,
): Shortage | null {
  const { rows, accounts, grants } = parts
  const account = accounts.load(workspace, nowMs)
  const { terms, platformMicros, spendMicros, keyId, leaseMs } = reservation
  if (terms.grant) grants.book(account, terms.grant, nowMs)
  expire(parts, account, nowMs, EXPIRE_PER_RESERVE)
  const purse = choosePurse(account, reservation, nowMs)
  const shortage =
    purse === null
      ? shortageOf(reservation, grants.any(workspace))
      : overBudget(account, accounts.spentBy(account, keyId), reservation)
  if (purse !== null && shortage === null) {
    if (purse === 'trial') account.trialSpentMicros += platformMicros
    if (purse === 'credits') account.creditsMicros -= platformMicros
    accounts.spend(account, keyId, spendMicros)
    rows.put(workspace, {
      token,
      claim,
      key_id: keyId,
      purse,
      platform_micros: platformMicros,
      spend_micros: spendMicros,
      month: account.month,
      lease_until_ms: nowMs + leaseMs,
    })
  }
  accounts.save(account)
  return shortage
}

/**
 * Ends a reservation whose lease is not over: the purse gets back, the spending becomes the real one.
 *
 * @returns whether the holder had it
 */
function replace(
  { rows, accounts }: ReservationParts,
  { workspace, token, claim }: Holder,
  real: Charge,
  nowMs: number,
): boolean {
  const row = rows.find(workspace, token)
  if (row?.claim !== claim || row.lease_until_ms <= nowMs) return false
  rows.remove(workspace, token)
  const account = accounts.load(workspace, nowMs)
  const backMicros = Math.max(0, row.platform_micros - real.platformMicros)
  if (row.purse === 'trial') account.trialSpentMicros -= backMicros
  if (row.purse === 'credits') account.creditsMicros += backMicros
  account.overageMicros += Math.max(0, real.platformMicros - row.platform_micros)
  // What was spent in a month that is over concerns no budget any more.
  if (row.month === account.month) accounts.spend(account, row.key_id, real.spendMicros - row.spend_micros)
  accounts.save(account)
  return true
}

function expire(parts: ReservationParts, account: Account, nowMs: number, limit: number): void {
  const rows = parts.rows.listExpired(account.workspace, nowMs, limit)
  for (const row of rows) expireRow(parts, account, row)
}

/** It stays charged as it is, and the job whose it is has been paid for. */
function expireRow({ rows, tokens }: ReservationParts, account: Account, row: ReservationRow): void {
  const { workspace } = account
  rows.remove(workspace, row.token)
  account.expiredCount += 1
  account.expiredMicros += row.platform_micros
  if (row.claim > 0) tokens.remember(workspace, row.token, 'charged', row.lease_until_ms + CHARGED_MS)
}

/** Null: neither trial nor credits suffice. */
function choosePurse(account: Account, { terms, platformMicros }: Reservation, nowMs: number): Purse | null {
  if (platformMicros === 0) return 'none'
  const { trial } = terms
  const trialLeftMicros =
    trial && trial.expiresAtMs > nowMs ? trial.allowanceMicros - account.trialSpentMicros : 0
  if (trialLeftMicros >= platformMicros) return 'trial'
  return account.creditsMicros >= platformMicros ? 'credits' : null
}

function shortageOf({ terms }: Reservation, hadCredits: boolean): Shortage {
  return terms.trial && !hadCredits ? 'trial' : 'credits'
}

function overBudget(account: Account, keySpentMicros: number, reservation: Reservation): Shortage | null {
  const { terms, keyBudgetMicros, spendMicros } = reservation
  if (keyBudgetMicros !== null && keySpentMicros + spendMicros > keyBudgetMicros) return 'key_budget'
  const { budgetMicros } = terms
  if (budgetMicros !== null && account.spentMicros + spendMicros > budgetMicros) return 'workspace_budget'
  return null
}
