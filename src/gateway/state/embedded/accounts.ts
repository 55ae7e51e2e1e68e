import type {
  Accounts,
  AccountTerms,
  AccountView,
  Charge,
  HeldMoney,
  LeaseCharge,
  Leased,
  Leasing,
  ReservationTerms,
  Settled,
  Shortage,
} from '../../../contracts/ledger.ts'
import type { StateDatabase } from './database.ts'
import type { EndUserSpending } from './end-users.ts'
import { createLostRows, type LostRow, type LostRows } from './lost-money.ts'
import type { Operations } from './subjects.ts'
import type { Tokens } from './tokens.ts'

interface Figures {
  creditsMicros: number
  trialSpentMicros: number
  overageMicros: number
  expiredCount: number
  expiredMicros: number
  spentMicros: number
  /** Charged for good since it was loaded. */
  bookedMicros: number
}

/** An account in the current month. It is changed in place, and `save` writes it back. */
interface Account extends Figures {
  readonly workspace: string
  readonly month: string
  /** Since when charges are booked, and whether they are by now. */
  readonly bookedSinceMs: number
  readonly isBooked: boolean
  /** The figures as they were loaded. */
  readonly before: Readonly<Figures>
}

interface AccountRows {
  load(workspace: string, nowMs: number): Account
  /**
   * Writes only what has changed, so that a look at an account costs no flush.
   *
   * @throws RangeError when an amount is past what a number holds exactly
   */
  save(account: Account): void
  /** Spending of a key in the month of the account. */
  spentBy(account: Account, keyId: string): number
  /** Counts for the key and for the workspace; a negative amount is taken back. The account itself is not yet saved. */
  spend(account: Account, keyId: string, micros: number): void
  spentByKey(account: Account): Record<string, number>
  booked(account: Account): AccountView['booked']
}

type Row = {
  readonly credits_micros: number
  readonly trial_spent_micros: number
  readonly overage_micros: number
  readonly expired_count: number
  readonly expired_micros: number
  readonly month: string
  readonly spent_micros: number
  readonly booked_since_ms: number
}

const HOUR_MS = 3_600_000

/** The calendar month in UTC, as `2026-11`. */
function monthOf(nowMs: number): string {
  return new Date(nowMs).toISOString().slice(0, 7)
}

function figuresOf(row: Row | undefined, month: string): Figures {
  return {
    creditsMicros: row?.credits_micros ?? 0,
    trialSpentMicros: row?.trial_spent_micros ?? 0,
    overageMicros: row?.overage_micros ?? 0,
    expiredCount: row?.expired_count ?? 0,
    expiredMicros: row?.expired_micros ?? 0,
    spentMicros: row?.month === month ? row.spent_micros : 0,
    bookedMicros: 0,
  }
}

/** Rows of accounts and of what their keys have spent. */
function createAccountRows(db: StateDatabase): AccountRows {
  const find = db.prepare('SELECT * FROM accounts WHERE workspace = ?')
  const put = db.prepare(`
    INSERT OR REPLACE INTO accounts
      (workspace, credits_micros, trial_spent_micros, overage_micros, expired_count, expired_micros,
       month, spent_micros, booked_since_ms)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`)
  const bookings = createBookings(db)
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
      const before = figuresOf(row, month)
      // A new account has all its bookings.
      const bookedSinceMs = row?.booked_since_ms ?? nowMs - (nowMs % HOUR_MS)
      return { workspace, month, bookedSinceMs, isBooked: nowMs >= bookedSinceMs, ...before, before }
    },

    save(account) {
      const names = Object.keys(account.before) as (keyof Figures)[]
      if (names.every((name) => account[name] === account.before[name])) return
      bookings.add(account)
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
        account.bookedSinceMs,
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

    booked: (account) => ({
      sinceMs: find.get(account.workspace) ? account.bookedSinceMs : 0,
      months: bookings.list(account.workspace),
    }),
  }
}

/** Rows of what accounts were charged for good, by month. */
function createBookings(db: StateDatabase) {
  const put = db.prepare(`
    INSERT INTO booked (workspace, month, micros) VALUES (?, ?, ?)
    ON CONFLICT DO UPDATE SET micros = micros + excluded.micros`)
  const list = db.query<AccountView['booked']['months'][number]>(
    'SELECT month, micros FROM booked WHERE workspace = ? ORDER BY month',
  )
  return {
    add({ workspace, month, isBooked, bookedMicros }: Account): void {
      if (isBooked && bookedMicros !== 0) put.run(workspace, month, exact(bookedMicros))
    },
    list: (workspace: string) => list.all(workspace),
  }
}

function exact(micros: number): number {
  if (Number.isSafeInteger(micros)) return micros
  throw new RangeError(`${micros} cannot be kept exactly`)
}

interface Grants {
  /**
   * Adds to the credits of the account, which is not yet saved; a negative amount takes no more than there is.
   *
   * @returns whether it was booked now; false: the id was booked before
   */
  book(account: Account, grant: { readonly id: string; readonly micros: number }, nowMs: number): boolean
  /** Whether anything was ever booked. */
  any(workspace: string): boolean
  /** In the order in which they were booked. */
  list(workspace: string): AccountView['grants']
}

/** Books credits to workspaces, each grant under an id of its own. */
function createGrants(db: StateDatabase): Grants {
  const put = db.prepare(`
    INSERT INTO grants (workspace, id, micros, booked_at_ms) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`)
  const any = db.prepare('SELECT 1 FROM grants WHERE workspace = ? LIMIT 1')
  const list = db.prepare(
    'SELECT id, micros, booked_at_ms FROM grants WHERE workspace = ? ORDER BY booked_at_ms, id',
  )
  return {
    book(account, { id, micros }, nowMs) {
      const booked = Math.max(micros, -account.creditsMicros)
      if (put.run(account.workspace, id, booked, nowMs).changes === 0) return false
      account.creditsMicros += booked
      return true
    },
    any: (workspace) => any.get(workspace) !== undefined,
    list(workspace) {
      const rows = list.all(workspace) as { id: string; micros: number; booked_at_ms: number }[]
      return rows.map(({ id, micros, booked_at_ms }) => ({ id, micros, bookedAtMs: booked_at_ms }))
    },
  }
}

type Purse = 'trial' | 'credits' | 'none'

interface ReservationRow {
  readonly token: string
  /** The claim of the job that holds it; 0: a call does. */
  readonly claim: number
  readonly key_id: string
  readonly purse: Purse
  readonly platform_micros: number
  readonly spend_micros: number
  readonly month: string
  readonly lease_until_ms: number
  /** Account of the end user whose spending it is as well; null: none's. */
  readonly end_user: string | null
  /** The part of a lease that calls under way use; null: the row is not a lease. */
  readonly used_platform_micros: number | null
  readonly used_spend_micros: number | null
}

interface ReservationRows {
  find(workspace: string, token: string): ReservationRow | undefined
  put(workspace: string, row: ReservationRow): void
  /** Gives it to another claim; its lease is never cut. */
  pass(workspace: string, token: string, claim: number, leaseUntilMs: number): void
  remove(workspace: string, token: string): void
  /** Removes it if no job holds it, past its lease or not. @returns the row as it was */
  take(workspace: string, token: string): ReservationRow | undefined
  /** Removes it if this very claim holds it, within its lease. @returns the row as it was */
  end(holder: Holder, nowMs: number): ReservationRow | undefined
  /** Up to `limit` of those whose lease is over, the oldest first. */
  listExpired(workspace: string, nowMs: number, limit: number): readonly ReservationRow[]
  /** Sum of those whose lease is not over. */
  sumMicros(workspace: string, nowMs: number): number
}

/** Rows of money that is set aside. */
function createReservationRows(db: StateDatabase): ReservationRows {
  const find = db.query<ReservationRow>('SELECT * FROM reservations WHERE workspace = ? AND token = ?')
  const put = db.prepare(`
    INSERT INTO reservations
      (workspace, token, claim, key_id, purse, platform_micros, spend_micros, month, lease_until_ms, end_user,
       used_platform_micros, used_spend_micros)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`)
  const pass = db.prepare(`
    UPDATE reservations SET claim = ?, lease_until_ms = max(lease_until_ms, ?)
    WHERE workspace = ? AND token = ?`)
  const remove = db.prepare('DELETE FROM reservations WHERE workspace = ? AND token = ?')
  const take = db.query<ReservationRow>(
    'DELETE FROM reservations WHERE workspace = ? AND token = ? AND claim = 0 RETURNING *',
  )
  const end = db.query<ReservationRow>(
    `DELETE FROM reservations WHERE workspace = ? AND token = ? AND claim = ? AND lease_until_ms > ? RETURNING *`,
  )
  const listExpired = db.query<ReservationRow>(`
    SELECT * FROM reservations WHERE workspace = ? AND lease_until_ms <= ?
    ORDER BY lease_until_ms LIMIT ? + 0`)
  const sum = db.prepare(`
    SELECT coalesce(sum(platform_micros), 0) AS micros FROM reservations
    WHERE workspace = ? AND lease_until_ms > ?`)
  return {
    find: (workspace, token) => find.get(workspace, token),
    put(workspace, row) {
      const { token, claim, key_id, purse, month, lease_until_ms, end_user } = row
      const amounts = [row.platform_micros, row.spend_micros] as const
      const used = [row.used_platform_micros, row.used_spend_micros] as const
      put.run(workspace, token, claim, key_id, purse, ...amounts, month, lease_until_ms, end_user, ...used)
    },
    pass: (workspace, token, claim, leaseUntilMs) => void pass.run(claim, leaseUntilMs, workspace, token),
    remove: (workspace, token) => void remove.run(workspace, token),
    take: (workspace, token) => take.get(workspace, token),
    end: ({ workspace, token, claim }, nowMs) => end.get(workspace, token, claim, nowMs),
    listExpired: (workspace, nowMs, limit) => listExpired.all(workspace, nowMs, limit),
    sumMicros: (workspace, nowMs) => Number(sum.get(workspace, nowMs)?.micros),
  }
}

/** The call or job that sets money aside. */
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
  reserve(holder: Holder, reservation: ReservationTerms, nowMs: number): Shortage | 'voided' | null
  /** Replaces what was set aside by what the call came to, if this very claim held it. */
  settle(holder: Holder, charge: Charge, nowMs: number): Replaced
  /** As if it had never been set aside; if this very claim holds it. */
  undo(holder: Holder, nowMs: number): void
  lease(leasing: Leasing, nowMs: number): Leased
  recover(money: HeldMoney, nowMs: number): boolean
  /** Counts up to `limit` reservations of the account whose lease is over as expired. The account is not yet saved. */
  expire(account: Account, nowMs: number, limit: number): void
  /** Sum that calls under way have taken from the purses. */
  reservedMicros(workspace: string, nowMs: number): number
}

/** The outcome of a reservation. */
type Replaced = Omit<Settled, 'slotHeld'>

/** Expired reservations that one `reserve` charges; each was made by one, so that they cannot pile up. */
const EXPIRE_PER_RESERVE = 20
/** How long it is known that a job was charged: longer than any job may be under way. */
const CHARGED_MS = 30 * 24 * 3_600_000
const CHARGED: Replaced = Object.freeze({ charged: true })
const NOT_CHARGED: Replaced = Object.freeze({ charged: false })
const NOTHING: Charge = Object.freeze({ platformMicros: 0, spendMicros: 0 })

interface ReservationDependencies {
  readonly rows: ReservationRows
  readonly accounts: AccountRows
  readonly grants: Grants
  readonly tokens: Tokens
  readonly endUsers: EndUserSpending
  readonly lost: LostRows
}

/** Money that is set aside for calls under way, and for jobs. */
function createReservations(deps: ReservationDependencies): Reservations {
  const { rows, accounts, tokens } = deps
  return {
    reserve(holder, reservation, nowMs) {
      const { workspace, token, claim } = holder
      const row = rows.find(workspace, token)
      if (claim === 0) return row ? null : setAside(deps, holder, reservation, nowMs)
      if (row && row.lease_until_ms > nowMs) {
        if (row.claim > claim) return 'voided'
        rows.pass(workspace, token, claim, nowMs + reservation.leaseMs)
        return null
      }
      if (row) {
        const account = accounts.load(workspace, nowMs)
        expireRow(deps, account, row, nowMs)
        accounts.save(account)
      }
      if (tokens.knows(workspace, token, 'charged', nowMs)) return null
      return setAside(deps, holder, reservation, nowMs)
    },

    settle(holder, charge, nowMs) {
      const { workspace, token, claim } = holder
      const ended = replace(deps, holder, charge, nowMs)
      const costs = charge.platformMicros > 0 || charge.spendMicros > 0
      if (ended.charged && claim > 0 && costs)
        tokens.remember(workspace, token, 'charged', nowMs + CHARGED_MS)
      return ended
    },

    undo: (holder, nowMs) => void replace(deps, holder, NOTHING, nowMs),
    lease: (leasing, nowMs) => lease(deps, leasing, nowMs),
    recover: (money, nowMs) => recover(deps, money, nowMs),
    expire: (account, nowMs, limit) => expire(deps, account, nowMs, limit),
    reservedMicros: (workspace, nowMs) => rows.sumMicros(workspace, nowMs),
  }
}

/** Sets money aside for a token that has none. */
function setAside(
  deps: ReservationDependencies,
  { workspace, token, claim }: Holder,
  reservation: ReservationTerms,
  nowMs: number,
): Shortage | null {
  const { rows, accounts, grants, endUsers } = deps
  const account = accounts.load(workspace, nowMs)
  const { terms, platformMicros, spendMicros, keyId, leaseMs, endUser } = reservation
  if (terms.grant) grants.book(account, terms.grant, nowMs)
  expire(deps, account, nowMs, EXPIRE_PER_RESERVE)
  const purse = choosePurse(account, reservation, nowMs)
  const shortage =
    purse === null
      ? shortageOf(reservation, grants.any(workspace))
      : (overBudget(account, accounts.spentBy(account, keyId), reservation) ??
        overEndUserBudget(deps, account, reservation))
  if (purse !== null && shortage === null) {
    if (purse === 'trial') account.trialSpentMicros += platformMicros
    if (purse === 'credits') account.creditsMicros -= platformMicros
    accounts.spend(account, keyId, spendMicros)
    if (endUser) endUsers.spend(workspace, endUser.account, account.month, spendMicros, nowMs)
    rows.put(workspace, {
      token,
      claim,
      key_id: keyId,
      purse,
      platform_micros: platformMicros,
      spend_micros: spendMicros,
      month: account.month,
      lease_until_ms: nowMs + leaseMs,
      end_user: endUser?.account ?? null,
      used_platform_micros: null,
      used_spend_micros: null,
    })
  }
  accounts.save(account)
  return shortage
}

/** Ends a reservation of the holder within its lease: the purse gets back, the spending becomes the real one. */
function replace(deps: ReservationDependencies, holder: Holder, real: Charge, nowMs: number): Replaced {
  const { rows, accounts, endUsers } = deps
  const { workspace } = holder
  const row = rows.end(holder, nowMs)
  if (row === undefined) return NOT_CHARGED
  const account = accounts.load(workspace, nowMs)
  charge(accounts, account, row, real)
  accounts.save(account)
  if (row.end_user === null || row.month !== account.month) return CHARGED
  const more = real.spendMicros - row.spend_micros
  return { charged: true, endUserMicros: endUsers.spend(workspace, row.end_user, row.month, more, nowMs) }
}

/** Makes the reservation, which is removed, the real charge. The account is not yet saved. */
function charge(accounts: AccountRows, account: Account, row: ReservationRow, real: Charge): void {
  give(account, row.purse, Math.max(0, row.platform_micros - real.platformMicros))
  account.overageMicros += Math.max(0, real.platformMicros - row.platform_micros)
  book(account, real.spendMicros)
  spendMore(accounts, account, row, real.spendMicros - row.spend_micros)
}

/** Counts what was charged for good; less than nothing takes back. */
function book(account: Account, micros: number): void {
  account.bookedMicros += micros
}

/** Spending of a month that is over concerns no budget any more. */
function spendMore(
  accounts: AccountRows,
  account: Account,
  { month, key_id }: Pick<ReservationRow, 'month' | 'key_id'>,
  micros: number,
): void {
  if (month === account.month) accounts.spend(account, key_id, micros)
}

/** Puts money into a purse; a negative amount is taken out. */
function give(account: Account, purse: Purse, micros: number): void {
  if (purse === 'trial') account.trialSpentMicros -= micros
  if (purse === 'credits') account.creditsMicros += micros
}

/** A lease takes at most this part of the rest, so many leases fit before a purse is much smaller. */
const LEASED_PART = 100

/** Moves the money of a lease into a new reservation; see `CallLedger.lease`. */
function lease(deps: ReservationDependencies, leasing: Leasing, nowMs: number): Leased {
  const { rows, accounts, grants } = deps
  const { token, workspace, from, held, used, more } = leasing
  const known = rows.find(workspace, token)
  if (known !== undefined) {
    const platformMicros = known.platform_micros - held.platformMicros
    const more = { platformMicros, spendMicros: known.spend_micros - held.spendMicros }
    return { state: 'leased', more, useMs: 0, month: known.month }
  }
  const old = from === null ? null : rows.end({ workspace, token: from.token, claim: 0 }, nowMs)
  if (old === undefined) return { state: 'over' }
  const account = accounts.load(workspace, nowMs)
  if (held.terms.grant) grants.book(account, held.terms.grant, nowMs)
  expire(deps, account, nowMs, EXPIRE_PER_RESERVE)
  const kept = old === null || from === null ? NOTHING : keep(accounts, account, old, from.charge, held)
  const purse = old?.purse ?? leasedPurse(account, more, held.terms.trial, nowMs)
  const month = old?.month ?? account.month
  const isOfNow = month === account.month
  const added = isOfNow ? addable(deps, account, purse, leasing, kept, nowMs) : NOTHING
  give(account, purse, -added.platformMicros)
  accounts.spend(account, held.keyId, added.spendMicros)
  const row = {
    ...{ token, claim: 0, key_id: held.keyId, purse, month, lease_until_ms: nowMs + held.leaseMs },
    end_user: null,
    platform_micros: kept.platformMicros + added.platformMicros,
    spend_micros: kept.spendMicros + added.spendMicros,
    used_platform_micros: used.platformMicros,
    used_spend_micros: used.spendMicros,
  }
  if (row.platform_micros > 0 || row.spend_micros > 0) rows.put(workspace, row)
  accounts.save(account)
  return { state: 'leased', more: added, useMs: isOfNow ? usableMs(purse, leasing, nowMs) : 0, month }
}

/** Charges what the calls of a lease came to, and holds on the rest as told. */
function keep(
  accounts: AccountRows,
  account: Account,
  old: ReservationRow,
  real: LeaseCharge,
  { platformMicros, spendMicros }: ReservationTerms,
): Charge {
  const leftMicros = Math.max(0, old.platform_micros - real.platformMicros)
  const kept = { platformMicros: Math.min(platformMicros, leftMicros), spendMicros }
  charge(accounts, account, old, real)
  account.overageMicros += real.overageMicros
  give(account, old.purse, -kept.platformMicros)
  spendMore(accounts, account, old, spendMicros)
  return kept
}

/** The purse of a lease that begins. The last of a trial is left to calls that it covers one by one. */
function leasedPurse(account: Account, more: Charge, trial: AccountTerms['trial'], nowMs: number): Purse {
  if (more.platformMicros === 0) return 'none'
  return trialLeft(account, trial, nowMs) > 0 ? 'trial' : 'credits'
}

function trialLeft(account: Account, trial: AccountTerms['trial'], nowMs: number): number {
  return trial && trial.expiresAtMs > nowMs ? trial.allowanceMicros - account.trialSpentMicros : 0
}

/** How much may be set aside besides what is held on. */
function addable(
  { accounts }: ReservationDependencies,
  account: Account,
  purse: Purse,
  { held, more }: Leasing,
  kept: Charge,
  nowMs: number,
): Charge {
  const { keyId, keyBudgetMicros, terms } = held
  const trialMicros = trialLeft(account, terms.trial, nowMs)
  const left = { none: 0, trial: trialMicros, credits: trialMicros > 0 ? 0 : account.creditsMicros }[purse]
  const part = (micros: number) => Math.max(0, Math.floor(micros / LEASED_PART))
  const ofBudget = (budgetMicros: number | null, spentMicros: number) =>
    budgetMicros === null ? Number.MAX_SAFE_INTEGER : part(budgetMicros - spentMicros)
  const platformMicros = Math.min(more.platformMicros, part(left))
  // Spending comes with the money that pays for it: of a purse that gives less, less is set aside.
  const wantedMicros = held.platformMicros + more.platformMicros
  const share =
    purse === 'none' || wantedMicros === 0 ? 1 : (kept.platformMicros + platformMicros) / wantedMicros
  const paid = Math.floor((held.spendMicros + more.spendMicros) * share) - kept.spendMicros
  return {
    platformMicros,
    spendMicros: Math.min(
      more.spendMicros,
      share === 1 ? more.spendMicros : Math.max(0, paid),
      ofBudget(keyBudgetMicros, accounts.spentBy(account, keyId)),
      ofBudget(terms.budgetMicros, account.spentMicros),
    ),
  }
}

/** How long calls may begin with the money: within the month, and the trial. */
function usableMs(purse: Purse, { held, useMs }: Leasing, nowMs: number): number {
  const date = new Date(nowMs)
  const monthEndMs = Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1)
  const trialEndMs = (purse === 'trial' && held.terms.trial?.expiresAtMs) || monthEndMs
  return Math.max(0, Math.min(useMs, monthEndMs - nowMs, trialEndMs - nowMs))
}

function expire(deps: ReservationDependencies, account: Account, nowMs: number, limit: number): void {
  const rows = deps.rows.listExpired(account.workspace, nowMs, limit)
  for (const row of rows) expireRow(deps, account, row, nowMs)
}

/**
 * Charges a reservation whose lease is over what was used of it as far as that is known: all, but for leases of nodes.
 * A job that held it has been paid for.
 */
function expireRow(
  deps: ReservationDependencies,
  account: Account,
  row: ReservationRow,
  nowMs: number,
): void {
  const { rows, accounts, tokens, lost } = deps
  const { workspace } = account
  const used = {
    platformMicros: Math.min(row.used_platform_micros ?? row.platform_micros, row.platform_micros),
    spendMicros: row.used_spend_micros ?? row.spend_micros,
  }
  rows.remove(workspace, row.token)
  charge(accounts, account, row, used)
  countExpired(account, used, 1)
  lost.put(workspace, lostRowOf(row, used, { recovered: 0, atMs: nowMs }))
  if (row.claim > 0) tokens.remember(workspace, row.token, 'charged', row.lease_until_ms + CHARGED_MS)
}

/** @param sign -1: takes it back */
function countExpired(account: Account, { platformMicros, spendMicros }: Charge, sign: 1 | -1): void {
  if (platformMicros > 0 || spendMicros > 0) account.expiredCount += sign
  account.expiredMicros += sign * platformMicros
}

function lostRowOf(
  { token, purse, month, key_id, end_user }: Omit<LostRow, 'recorded' | 'recovered' | 'at_ms'>,
  { platformMicros, spendMicros }: Charge,
  { recovered, atMs }: { readonly recovered: 0 | 1; readonly atMs: number },
): LostRow {
  const amounts = { platform_micros: platformMicros, spend_micros: spendMicros }
  return { token, purse, month, key_id, end_user, ...amounts, recorded: 0, recovered, at_ms: atMs }
}

/** Settles what a dead node held; see `CallLedger.recover`. */
function recover(deps: ReservationDependencies, money: HeldMoney, nowMs: number): boolean {
  const { rows, accounts, endUsers, lost } = deps
  const { workspace, token, charge: known } = money
  const account = accounts.load(workspace, nowMs)
  const row = rows.take(workspace, token)
  const was = row ?? lost.find(workspace, token)
  if (was === undefined || ('recovered' in was && was.recovered === 1)) return false
  const most = row === undefined ? Number.MAX_SAFE_INTEGER : row.platform_micros - known.platformMicros
  const estimate = {
    platformMicros: Math.min(money.estimate.platformMicros, Math.max(0, most)),
    spendMicros: money.estimate.spendMicros,
  }
  const real = {
    platformMicros: known.platformMicros + estimate.platformMicros,
    spendMicros: known.spendMicros + estimate.spendMicros,
  }
  if (row !== undefined) charge(accounts, account, row, real)
  else correct(accounts, account, was, real)
  account.overageMicros += known.overageMicros
  countExpired(account, estimate, 1)
  const more = real.spendMicros - was.spend_micros
  if (was.end_user !== null && was.month === account.month)
    endUsers.spend(workspace, was.end_user, was.month, more, nowMs)
  accounts.save(account)
  const isRecorded = 'recorded' in was && was.recorded === 1
  const atMs = 'at_ms' in was ? was.at_ms : nowMs
  if (isRecorded || estimate.platformMicros > 0 || estimate.spendMicros > 0)
    lost.put(workspace, lostRowOf(was, estimate, { recovered: 1, atMs }))
  else lost.remove(workspace, token)
  return true
}

/** Makes what was charged by guess the real charge. */
function correct(
  accounts: AccountRows,
  account: Account,
  was: Pick<LostRow, 'purse' | 'platform_micros' | 'spend_micros' | 'month' | 'key_id'>,
  real: Charge,
): void {
  const guessed = { platformMicros: was.platform_micros, spendMicros: was.spend_micros }
  const more = real.platformMicros - guessed.platformMicros
  // The money that was given back may have been spent since.
  const most = { trial: more, credits: Math.max(0, account.creditsMicros), none: 0 }[was.purse]
  const paid = Math.min(more, most)
  give(account, was.purse, -paid)
  account.overageMicros += more - paid
  book(account, real.spendMicros - guessed.spendMicros)
  spendMore(accounts, account, was, real.spendMicros - guessed.spendMicros)
  countExpired(account, guessed, -1)
}

/** Null: neither trial nor credits suffice. */
function choosePurse(
  account: Account,
  { terms, platformMicros }: ReservationTerms,
  nowMs: number,
): Purse | null {
  if (platformMicros === 0) return 'none'
  if (trialLeft(account, terms.trial, nowMs) >= platformMicros) return 'trial'
  return account.creditsMicros >= platformMicros ? 'credits' : null
}

function shortageOf({ terms }: ReservationTerms, hadCredits: boolean): Shortage {
  return terms.trial && !hadCredits ? 'trial' : 'credits'
}

function overBudget(
  account: Account,
  keySpentMicros: number,
  reservation: ReservationTerms,
): Shortage | null {
  const { terms, keyBudgetMicros, spendMicros } = reservation
  if (keyBudgetMicros !== null && keySpentMicros + spendMicros > keyBudgetMicros) return 'key_budget'
  const { budgetMicros } = terms
  if (budgetMicros !== null && account.spentMicros + spendMicros > budgetMicros) return 'workspace_budget'
  return null
}

function overEndUserBudget(
  { endUsers }: ReservationDependencies,
  { workspace, month }: Account,
  { endUser, spendMicros }: ReservationTerms,
): Shortage | null {
  if (!endUser) return null
  const spentMicros = endUsers.spentBy(workspace, endUser.account, month)
  return spentMicros + spendMicros > endUser.budgetMicros ? 'end_user_budget' : null
}

/** How long a batch of usage is known: a node that does not hear that it was counted sends it again for minutes. */
const USAGE_MS = 3_600_000
/** Expired reservations that one look at an account counts. */
const EXPIRE_PER_SHOW = 1_000

/** @returns the methods of `Accounts`, and the reservations that the ledger makes */
export function createAccounts(
  db: StateDatabase,
  { tokens, endUsers }: Pick<ReservationDependencies, 'tokens' | 'endUsers'>,
  now: () => number,
) {
  const rows = createAccountRows(db)
  const grants = createGrants(db)
  const lost = createLostRows(db)
  const deps = { rows: createReservationRows(db), accounts: rows, grants, tokens, endUsers, lost }
  const reservations = createReservations(deps)
  const operations: Operations<Accounts> = {
    show(workspace, { grant }) {
      const nowMs = now()
      const account = rows.load(workspace, nowMs)
      if (grant) grants.book(account, grant, nowMs)
      reservations.expire(account, nowMs, EXPIRE_PER_SHOW)
      rows.save(account)
      return {
        creditsMicros: account.creditsMicros,
        grants: grants.list(workspace),
        trialSpentMicros: account.trialSpentMicros,
        overageMicros: account.overageMicros,
        reservedMicros: reservations.reservedMicros(workspace, nowMs),
        expired: { count: account.expiredCount, micros: account.expiredMicros },
        booked: rows.booked(account),
        month: account.month,
        spentMicros: account.spentMicros,
        spentByKey: rows.spentByKey(account),
      }
    },

    addCredits(workspace, grant) {
      const nowMs = now()
      const account = rows.load(workspace, nowMs)
      reservations.expire(account, nowMs, EXPIRE_PER_SHOW)
      const booked = grants.book(account, grant, nowMs)
      rows.save(account)
      return { booked, creditsMicros: account.creditsMicros }
    },

    endUsersSpent(workspace, named) {
      const month = monthOf(now())
      return named.map((account) => endUsers.spentBy(workspace, account, month))
    },

    addUsage({ token, workspace, spentMicros, month }) {
      const nowMs = now()
      if (tokens.knows(workspace, token, 'usage', nowMs)) return
      tokens.remember(workspace, token, 'usage', nowMs + USAGE_MS)
      const account = rows.load(workspace, nowMs)
      if (month !== undefined && month !== account.month) return
      for (const [keyId, micros] of Object.entries(spentMicros)) {
        rows.spend(account, keyId, micros)
        book(account, micros)
      }
      rows.save(account)
    },

    lost(workspace) {
      const nowMs = now()
      const account = rows.load(workspace, nowMs)
      reservations.expire(account, nowMs, EXPIRE_PER_SHOW)
      rows.save(account)
      return lost.list(workspace, nowMs)
    },

    recorded: (workspace, money) => lost.recorded(workspace, money),
  }
  return { operations, reservations }
}
