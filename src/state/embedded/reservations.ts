import type { DatabaseSync } from 'node:sqlite'
import type { Charge, Reservation, Shortage } from '../../schema/ledger.ts'
import type { Account, AccountRows } from './account-rows.ts'
import type { Grants } from './grants.ts'

export interface Reservations {
  /**
   * Sets the money aside, once per token.
   *
   * @returns what is missing; null: nothing
   */
  reserve(workspace: string, token: string, reservation: Reservation, nowMs: number): Shortage | null
  /** Replaces what was set aside by what the call came to. */
  settle(workspace: string, token: string, charge: Charge, nowMs: number): void
  /** As if it had never been set aside. */
  undo(workspace: string, token: string, nowMs: number): void
  /** Counts up to `limit` reservations of the account whose lease is over as expired. The account is not yet saved. */
  expire(account: Account, nowMs: number, limit: number): void
  /** What calls under way have taken from the purses. */
  reservedMicros(workspace: string, nowMs: number): number
}

/** Expired reservations that one `reserve` counts; each was made by one, so that they cannot pile up. */
const EXPIRE_PER_RESERVE = 8

type Purse = 'trial' | 'credits' | 'none'

type Row = {
  readonly key_id: string
  readonly purse: Purse
  readonly platform_micros: number
  readonly spend_micros: number
  readonly month: string
  readonly lease_until_ms: number
}

/** Money that is set aside for calls under way. */
export function createReservations(db: DatabaseSync, accounts: AccountRows, grants: Grants): Reservations {
  const put = db.prepare(`
    INSERT INTO reservations
      (workspace, token, key_id, purse, platform_micros, spend_micros, month, lease_until_ms)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)`)
  const find = db.prepare('SELECT * FROM reservations WHERE workspace = ? AND token = ?')
  const remove = db.prepare('DELETE FROM reservations WHERE workspace = ? AND token = ?')
  const listExpired = db.prepare(`
    SELECT token, platform_micros FROM reservations
    WHERE workspace = ? AND lease_until_ms <= ? ORDER BY lease_until_ms LIMIT ?`)
  const sum = db.prepare(`
    SELECT coalesce(sum(platform_micros), 0) AS micros FROM reservations
    WHERE workspace = ? AND lease_until_ms > ?`)

  const expire = (account: Account, nowMs: number, limit: number): void => {
    const rows = listExpired.all(account.workspace, nowMs, limit) as {
      token: string
      platform_micros: number
    }[]
    for (const { token, platform_micros } of rows) {
      remove.run(account.workspace, token)
      account.expiredCount += 1
      account.expiredMicros += platform_micros
    }
  }

  /** Ends a reservation whose lease is not over: the purse gets back, the spending becomes the real one. */
  const replace = (workspace: string, token: string, real: Charge, nowMs: number): void => {
    const row = find.get(workspace, token) as Row | undefined
    if (!row || row.lease_until_ms <= nowMs) return
    remove.run(workspace, token)
    const account = accounts.load(workspace, nowMs)
    const backMicros = Math.max(0, row.platform_micros - real.platformMicros)
    if (row.purse === 'trial') account.trialSpentMicros -= backMicros
    if (row.purse === 'credits') account.creditsMicros += backMicros
    account.overageMicros += Math.max(0, real.platformMicros - row.platform_micros)
    // What was spent in a month that is over concerns no budget any more.
    if (row.month === account.month) accounts.spend(account, row.key_id, real.spendMicros - row.spend_micros)
    accounts.save(account)
  }

  return {
    reserve(workspace, token, reservation, nowMs) {
      if (find.get(workspace, token)) return null
      const account = accounts.load(workspace, nowMs)
      const { terms, platformMicros, spendMicros, keyId, leaseMs } = reservation
      if (terms.grant) grants.book(account, terms.grant, nowMs)
      expire(account, nowMs, EXPIRE_PER_RESERVE)
      const purse = choosePurse(account, reservation, nowMs)
      const shortage =
        purse === null
          ? shortageOf(reservation, grants.any(workspace))
          : overBudget(account, accounts.spentBy(account, keyId), reservation)
      if (purse !== null && shortage === null) {
        if (purse === 'trial') account.trialSpentMicros += platformMicros
        if (purse === 'credits') account.creditsMicros -= platformMicros
        accounts.spend(account, keyId, spendMicros)
        const { month } = account
        put.run(workspace, token, keyId, purse, platformMicros, spendMicros, month, nowMs + leaseMs)
      }
      accounts.save(account)
      return shortage
    },
    settle: replace,
    undo: (workspace, token, nowMs) =>
      replace(workspace, token, { platformMicros: 0, spendMicros: 0 }, nowMs),
    expire,
    reservedMicros: (workspace, nowMs) => Number(sum.get(workspace, nowMs)?.micros),
  }
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
