import type { DatabaseSync } from 'node:sqlite'

interface Figures {
  creditsMicros: number
  trialSpentMicros: number
  overageMicros: number
  expiredCount: number
  expiredMicros: number
  spentMicros: number
}

/** An account as it is kept, for the month that it is now. Changed in place, and written back by `save`. */
export interface Account extends Figures {
  readonly workspace: string
  readonly month: string
  /** As it was loaded. */
  readonly before: Readonly<Figures>
}

export interface AccountRows {
  load(workspace: string, nowMs: number): Account
  /**
   * Writes only what has changed, so that a look at an account costs no flush.
   *
   * @throws RangeError when an amount is past what a number holds exactly
   */
  save(account: Account): void
  /** What a key has spent in the month of the account. */
  spentBy(account: Account, keyId: string): number
  /** Counts for the key and for the workspace; negative: takes back. The account itself is not yet saved. */
  spend(account: Account, keyId: string, micros: number): void
  spentByKey(account: Account): Record<string, number>
}

type Row = {
  readonly credits_micros: number
  readonly trial_spent_micros: number
  readonly overage_micros: number
  readonly expired_count: number
  readonly expired_micros: number
  readonly month: string
  readonly spent_micros: number
}

/** The calendar month in UTC, as `2026-11`. */
export function monthOf(nowMs: number): string {
  return new Date(nowMs).toISOString().slice(0, 7)
}

/** Rows of accounts and of what their keys have spent. */
export function createAccountRows(db: DatabaseSync): AccountRows {
  const find = db.prepare('SELECT * FROM accounts WHERE workspace = ?')
  const put = db.prepare(`
    INSERT OR REPLACE INTO accounts
      (workspace, credits_micros, trial_spent_micros, overage_micros, expired_count, expired_micros,
       month, spent_micros)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)`)
  const findKey = db.prepare(`
    SELECT spent_micros FROM key_spending WHERE workspace = ? AND key_id = ? AND month = ?`)
  const putKey = db.prepare(`
    INSERT OR REPLACE INTO key_spending (workspace, key_id, month, spent_micros) VALUES (?, ?, ?, ?)`)
  const listKeys = db.prepare(
    'SELECT key_id, spent_micros FROM key_spending WHERE workspace = ? AND month = ?',
  )

  const spentBy = ({ workspace, month }: Account, keyId: string): number => {
    const row = findKey.get(workspace, keyId, month) as { spent_micros: number } | undefined
    return row?.spent_micros ?? 0
  }

  return {
    load(workspace, nowMs) {
      const row = find.get(workspace) as Row | undefined
      const month = monthOf(nowMs)
      const before = {
        creditsMicros: row?.credits_micros ?? 0,
        trialSpentMicros: row?.trial_spent_micros ?? 0,
        overageMicros: row?.overage_micros ?? 0,
        expiredCount: row?.expired_count ?? 0,
        expiredMicros: row?.expired_micros ?? 0,
        spentMicros: row?.month === month ? row.spent_micros : 0,
      }
      return { workspace, month, ...before, before }
    },

    save(account) {
      const names = Object.keys(account.before) as (keyof Figures)[]
      if (names.every((name) => account[name] === account.before[name])) return
      const { creditsMicros, trialSpentMicros, overageMicros, expiredCount, expiredMicros } = account
      put.run(
        account.workspace,
        exact(creditsMicros),
        exact(trialSpentMicros),
        exact(overageMicros),
        exact(expiredCount),
        exact(expiredMicros),
        account.month,
        exact(account.spentMicros),
      )
    },

    spentBy,

    spend(account, keyId, micros) {
      if (micros === 0) return
      account.spentMicros += micros
      putKey.run(account.workspace, keyId, account.month, exact(spentBy(account, keyId) + micros))
    },

    spentByKey({ workspace, month }) {
      const rows = listKeys.all(workspace, month) as { key_id: string; spent_micros: number }[]
      return Object.fromEntries(rows.map(({ key_id, spent_micros }) => [key_id, spent_micros]))
    },
  }
}

function exact(micros: number): number {
  if (Number.isSafeInteger(micros)) return micros
  throw new RangeError(`${micros} is no amount that can be kept exactly`)
}
