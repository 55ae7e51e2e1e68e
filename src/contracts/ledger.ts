import type { KeptText } from './objects.ts'

/**
 * Holds of running calls: an idempotency slot and reserved money. Amounts are whole micro-USD. Every method
 * is one atomic step, takes its time from the clock of the state, answers within 2 s, and throws GatewayError
 * DEPENDENCY_UNAVAILABLE when the state does not answer.
 */
export interface CallLedger {
  /**
   * Claims the slot and sets the money aside, both or neither. A free slot becomes `running`; money is only looked at
   * when the slot is free. Sent again with the same token it changes nothing and answers the same.
   */
  begin(beginning: Beginning): Promise<Begun>
  /**
   * Ends what `begin` began: the slot takes its last state if the token still holds it, the money its real amount.
   * Idempotent by the token; what a token does not hold, or no longer, is left alone.
   */
  settle(settlement: Settlement): Promise<Settled>
  /**
   * For a `begin` whose answer was lost: takes back what it may have done, and lets it do nothing if it should only
   * arrive after this.
   */
  cancel(cancellation: Cancellation): Promise<void>
  /**
   * Moves the money that a node hands out to the calls of a key by itself into a new reservation: charges what the
   * calls came to, holds on what is told, and sets more aside where there is plenty. Sent again with the same token it
   * changes nothing, and answers the same but for `useMs`.
   */
  lease(leasing: Leasing): Promise<Leased>
  /**
   * Settles money that a node held which died, by what its records say: whatever became of the reservation meanwhile,
   * it comes to the charge and the estimates, once. One that has expired was charged by guess, which is corrected.
   *
   * @returns whether this call settled it; false: it was settled, or settled so, before
   */
  recover(money: HeldMoney): Promise<boolean>
  /** Reads a slot. */
  look(workspace: string, slotId: string): Promise<SlotView>
}

/** Spending terms of a workspace, from the configuration. */
export interface AccountTerms {
  /** A one-time grant of credits: booked the first time that its id is met. */
  readonly grant: { readonly id: string; readonly micros: number } | null
  readonly trial: { readonly allowanceMicros: number; readonly expiresAtMs: number } | null
  /** Cap per calendar month in UTC over all keys; null: none. */
  readonly budgetMicros: number | null
}

export interface Beginning {
  /** Unique to this one call of the gateway. */
  readonly token: string
  readonly workspace: string
  readonly slot: SlotClaim | null
  readonly reservation: ReservationTerms | null
  /** Absent: the token is used by one call, once. */
  readonly claim?: JobClaim
}

export interface EndUserBudget {
  /** As `EndUser.account`. */
  readonly account: string
  /** Cap per calendar month in UTC. */
  readonly budgetMicros: number
}

export interface SlotClaim {
  /** Lower-case hex. */
  readonly id: string
  /** Digest of the payload, lower-case hex. */
  readonly fingerprint: string
  /** A slot that is still running after this long is burned: it is unknown whether the provider was paid. */
  readonly leaseMs: number
  /** How long a burned slot is remembered. */
  readonly ttlMs: number
}

export interface ReservationTerms {
  readonly keyId: string
  readonly terms: AccountTerms
  /** Cap of the key per calendar month in UTC; null: none. */
  readonly keyBudgetMicros: number | null
  /** Taken from the trial where it suffices, else from the credits; 0: neither is asked. */
  readonly platformMicros: number
  /** Counted against the budgets, and as spent this month. */
  readonly spendMicros: number
  /** The end user whose spending it is as well; absent: none has a budget. Never of a lease. */
  readonly endUser?: EndUserBudget
  /**
   * A reservation that is not settled after this long is charged as it is, which of a lease is what calls under way had
   * of it, and is counted as expired.
   */
  readonly leaseMs: number
}

/**
 * Tokens of jobs begin more than once: a worker dies, and another one takes the job over. Such a token has one
 * reservation, which goes from claim to claim, and is charged once: from the first settlement with a charge on (or the
 * expiry of its reservation) `begin` answers `begun` and sets nothing aside, and `settle` changes nothing.
 */
export interface JobClaim {
  /** The fencing number. Beginning takes the reservation over from a smaller one; a smaller one cannot end it. */
  readonly number: number
}

export type Begun =
  | { readonly state: 'begun' }
  | { readonly state: 'running' }
  | { readonly state: 'burned' }
  | { readonly state: 'stored'; readonly fingerprint: string; readonly result: StoredResult }
  /** No slot was claimed. `voided`: the token was cancelled before, or a later claim has taken it over. */
  | { readonly state: 'refused'; readonly why: Shortage | 'voided' }

/** trial: the workspace has one, it is used up or over, and there were never credits. */
export type Shortage = 'credits' | 'trial' | 'key_budget' | 'workspace_budget' | 'end_user_budget'

export type SlotView =
  | { readonly state: 'free' }
  | Extract<Begun, { readonly state: 'running' | 'burned' | 'stored' }>

export interface Settlement {
  readonly token: string
  readonly workspace: string
  readonly slot: { readonly id: string; readonly end: SlotEnd } | null
  /** Final cost of the call; null when nothing was reserved. */
  readonly charge: Charge | null
  /** Account of the end user, with whom it may have begun. */
  readonly endUser?: string
  /** As it began. */
  readonly claim?: JobClaim
}

export interface Charge {
  /** More than was reserved is booked as overage; the purse itself gives no more than that. */
  readonly platformMicros: number
  readonly spendMicros: number
}

/** Money that a node holds, as its records tell of it. */
export interface HeldMoney {
  readonly workspace: string
  /** Token of the reservation; none of a job. */
  readonly token: string
  /** Charge of calls that have a record. */
  readonly charge: LeaseCharge
  /** Estimates of calls under way, which have none. */
  readonly estimate: Charge
  /** Account of the end user, with whom it may have begun. */
  readonly endUser?: string
}

/**
 * A lease of money is an ordinary reservation, of an amount for many calls; each renewal is one step from a reservation
 * to the next. One that is not renewed expires: it is charged `used`, and the rest goes back.
 */
export interface Leasing {
  /** Token of the reservation that holds the money from now on; unique to this renewal. */
  readonly token: string
  readonly workspace: string
  /** The reservation that held it until now; null: the lease begins. */
  readonly from: { readonly token: string; readonly charge: LeaseCharge } | null
  /**
   * Money that is still held, for calls under way and to come; of the purse no more than there was. Zero when the lease
   * begins; zero without `more` ends it.
   */
  readonly held: ReservationTerms
  /** Share of that which calls under way have. */
  readonly used: Charge
  /**
   * Money that is set aside besides, if it can be: of either amount at most a hundredth of what is left, so that leases
   * leave enough for reservations call by call; of the spending no larger part than of the purse. Trials are leased
   * before credits, and only from the purse that the lease began with; nothing is added to one that began in another
   * month.
   */
  readonly more: Charge
  /** How long the answer may say that `more` can be handed out. */
  readonly useMs: number
}

export interface LeaseCharge extends Charge {
  /** Costs of calls above what each had of the lease; beside `platformMicros`, and given by no purse. */
  readonly overageMicros: number
}

export type Leased =
  | {
      readonly state: 'leased'
      /** Money that was set aside besides; zeros: there is not plenty. */
      readonly more: Charge
      /**
       * How long from the sending of the request on calls may begin with the money: it is the month of the lease then,
       * and the trial is not over. 0 also for what was sent again.
       */
      readonly useMs: number
      /** The month that its spending counts in. */
      readonly month: string
    }
  /** No money is held: the token was cancelled, or `from` is unknown, or past its lease: see `recover`. */
  | { readonly state: 'over' }

export type SlotEnd =
  | { readonly state: 'stored'; readonly result: StoredResult; readonly ttlMs: number }
  /** No provider was called: the key may be used again. */
  | { readonly state: 'released' }
  | { readonly state: 'burned'; readonly ttlMs: number }

export interface Settled {
  /** The slot ended as told. False: it was burned before, because its lease ran out, or it is another call's. */
  readonly slotHeld: boolean
  /**
   * True when the reservation became the charge. False when there was no charge, or the reservation had ended before
   * or belonged to another claim.
   */
  readonly charged: boolean
  /**
   * Spending of its end user in the month that the call began, reservations included. Absent: it was charged to none
   * with a budget, or that month is no longer counted.
   */
  readonly endUserMicros?: number
}

/** With a claim, only that claim is kept from beginning. */
export type Cancellation = Pick<Beginning, 'token' | 'workspace' | 'claim'> & {
  readonly slotId: string | null
  /** As of a settlement. */
  readonly endUser?: string
}

/** An answer as it is replayed. */
export interface StoredResult {
  readonly status: number
  /** The content type and the facts of the answer. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: KeptText
}

/** The accounts of workspaces, beside the calls that are under way. Times and failures as in `CallLedger`. */
export interface Accounts {
  /** How an account stands; books the grant of its terms first, if that was never done. */
  show(workspace: string, terms: AccountTerms): Promise<AccountView>
  /**
   * Books credits once per grant id; a negative amount takes them back, but not below zero.
   *
   * @returns whether this call booked it (false: the id was booked before, nothing changed), and the account after it
   */
  addCredits(
    workspace: string,
    grant: { readonly id: string; readonly micros: number },
  ): Promise<CreditsAdded>
  /** Spending of end users this month, reservations included, in the order of `accounts` (as `EndUser.account`). */
  endUsersSpent(workspace: string, accounts: readonly string[]): Promise<readonly number[]>
  /** Counts what calls without a reservation came to. Idempotent by the token of the batch, for an hour. */
  addUsage(batch: UsageBatch): Promise<void>
  /**
   * Charges reservations whose lease is over, and lists up to `LOST_AT_ONCE` of those that nodes left which died and
   * that were not recorded since they came to what they are.
   */
  lost(workspace: string): Promise<readonly LostMoney[]>
  /** Notes that it was recorded, unless it has come to something else meanwhile. */
  recorded(workspace: string, money: LostMoney): Promise<void>
}

/** How many `lost` lists. */
export const LOST_AT_ONCE = 100
/** How long it is known what a node was charged for that died: records of it may appear so much later. */
export const LOST_KEPT_MS = 30 * 24 * 3_600_000

/** Charge of a node that died, for calls whose end is unknown, or was known by then. */
export interface LostMoney {
  /** Token of the reservation. */
  readonly token: string
  readonly keyId: string
  /** Account of the end user whose spending it is as well; null: none's. */
  readonly endUser: string | null
  readonly spendMicros: number
  /** When it was charged. */
  readonly atMs: number
}

export interface CreditsAdded {
  readonly booked: boolean
  readonly creditsMicros: number
}

/** How long a batch of usage is sent again. The state knows it for an hour: one that is older may have been counted. */
export const BATCH_SENT_MS = 55 * 60_000

export interface UsageBatch {
  readonly token: string
  readonly workspace: string
  /** Key id → micro-USD; below 0: they were charged to the key, and are moved to others. */
  readonly spentMicros: Readonly<Record<string, number>>
  /** Counts in this month alone, as what it moves does; absent: in the present one. */
  readonly month?: string | undefined
}

/** By how much what a workspace was charged and what its records cost differ, micro-USD; neither is below 0. */
export interface BooksGap {
  readonly workspace: string
  /** Charged, and in no record. */
  readonly unrecordedMicros: number
  /** In records, and not charged. */
  readonly unchargedMicros: number
}

export interface AccountView {
  /** Credits left to spend, after reservations. */
  readonly creditsMicros: number
  /** Grants as booked, oldest first: together with the charges of calls they make the credits. */
  readonly grants: readonly { readonly id: string; readonly micros: number; readonly bookedAtMs: number }[]
  /** Reservations included. */
  readonly trialSpentMicros: number
  /** Costs above their reservations, which no purse has given. */
  readonly overageMicros: number
  /** Reserved by running calls, out of the trial and the credits. */
  readonly reservedMicros: number
  /** Charged by estimates, for calls whose node died. */
  readonly expired: { readonly count: number; readonly micros: number }
  /** Money that was charged for good, with platform money or without. */
  readonly booked: {
    /** Since when that is counted: a full hour, epoch milliseconds; 0: nothing was reserved or spent yet. */
    readonly sinceMs: number
    /** By the month in which it was charged, `2026-11`; the oldest first. */
    readonly months: readonly { readonly month: string; readonly micros: number }[]
  }
  /** `2026-11`: the calendar month in UTC that the spending is of. */
  readonly month: string
  /** Spent this month by all keys, reservations included. */
  readonly spentMicros: number
  /** The same for each key. */
  readonly spentByKey: Readonly<Record<string, number>>
}
