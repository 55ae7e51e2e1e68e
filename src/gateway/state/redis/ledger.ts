import type {
  AccountTerms,
  Beginning,
  Begun,
  CallLedger,
  Cancellation,
  HeldMoney,
  JobClaim,
  Leased,
  Leasing,
  Settled,
  Settlement,
  Shortage,
  SlotView,
  StoredResult,
} from '../../../contracts/ledger.ts'
import { keys } from './key-names.ts'
import { type Ask, replyInteger, replyText, replyTexts, script } from './script.ts'

/** Named where a call has no slot: the ids of slots are hexadecimal, so none has this one. */
const NO_SLOT = 'none'
/** Named where there is no end user: accounts are longer. */
const NO_END_USER = 'none'
/** Stands for a token that is used once: the claims of jobs count from 1. */
const NO_CLAIM = 0
/** How long a cancelled token stays void: longer than a command may lie in a connection that was given up. */
const VOID_MS = 120_000

/** The part that all scripts which touch money share. */
export const MONEY = 'ledger/money_steps'

const beginCall = script('ledger/begin_call', {
  keys: [
    ...['slot', 'void', 'account', 'grants', 'spent', 'reservations', 'leases', 'charged', 'end_user'],
    'lost',
  ],
  args: [
    ...(['token', 'fingerprint', 'slot_lease_ms', 'slot_ttl_ms'] as const),
    ...(['reserves', 'key_id', 'platform', 'spend', 'lease_ms', 'key_budget', 'workspace_budget'] as const),
    ...(['grant_id', 'grant', 'trial', 'trial_ends_ms', 'claim'] as const),
    ...(['end_user_account', 'end_user_budget'] as const),
  ],
  steps: MONEY,
  reply: begunOf,
})

const settleCall = script('ledger/settle_call', {
  keys: ['slot', 'account', 'spent', 'reservations', 'leases', 'charged', 'end_user'],
  args: ['token', 'end', 'result', 'ttl_ms', 'charges', 'platform', 'spend', 'claim'],
  steps: MONEY,
  reply: settledOf,
})

const cancelCall = script('ledger/cancel_call', {
  keys: ['slot', 'void', 'account', 'spent', 'reservations', 'leases', 'end_user'],
  args: ['token', 'has_slot', 'void_ms', 'claim'],
  steps: MONEY,
})

const leaseMoney = script('ledger/lease_money', {
  keys: ['void', 'account', 'grants', 'spent', 'reservations', 'leases', 'charged', 'lost'],
  args: [
    ...(['token', 'from', 'charge_platform', 'charge_spend', 'charge_overage'] as const),
    ...(['key_id', 'held_platform', 'held_spend', 'lease_ms', 'key_budget', 'workspace_budget'] as const),
    ...(['grant_id', 'grant', 'trial', 'trial_ends_ms'] as const),
    ...(['more_platform', 'more_spend', 'use_ms', 'used_platform', 'used_spend'] as const),
  ],
  steps: MONEY,
  reply: leasedOf,
})

const recoverMoney = script('ledger/recover_money', {
  keys: ['account', 'spent', 'reservations', 'leases', 'lost', 'end_user'],
  args: [
    ...(['token', 'charge_platform', 'charge_spend', 'charge_overage'] as const),
    ...(['estimate_platform', 'estimate_spend'] as const),
  ],
  steps: MONEY,
  reply: (reply) => reply === 1,
})

const lookAtSlot = script('ledger/look_at_slot', { keys: ['slot'], reply: slotViewOf })

function settledOf(reply: unknown): Settled {
  const [slotHeld, charged, endUserSpent] = Array.isArray(reply) ? reply : []
  const settled = { slotHeld: slotHeld === 1, charged: charged === 1 }
  const isCounted = typeof endUserSpent === 'string' && endUserSpent !== ''
  return isCounted ? { ...settled, endUserMicros: replyInteger(endUserSpent) } : settled
}

/** The ledger of calls in Redis. Each method is one script. */
export function createRedisLedger(ask: Ask): CallLedger {
  return {
    begin: (beginning) => ask(beginCall(beginInputs(beginning))),
    settle: (settlement) => ask(settleCall(settleInputs(settlement))),
    cancel: (cancellation) => ask(cancelCall(cancelInputs(cancellation))),
    lease: (leasing) => ask(leaseMoney(leaseInputs(leasing))),
    recover: (money) => ask(recoverMoney(recoverInputs(money))),
    look: (workspace, slotId) => ask(lookAtSlot({ slot: keys.slot(workspace, slotId) })),
  }
}

/** The keys of the money of a workspace, of which each script takes its own. */
export function moneyKeys(workspace: string) {
  return {
    account: keys.account(workspace),
    grants: keys.grants(workspace),
    spent: keys.spent(workspace),
    reservations: keys.reservations(workspace),
    leases: keys.leases(workspace),
    charged: keys.charged(workspace),
    lost: keys.lost(workspace),
  }
}

function beginInputs({ token, workspace, slot, reservation, claim }: Beginning) {
  const terms = reservation?.terms
  return {
    slot: keys.slot(workspace, slot?.id ?? NO_SLOT),
    void: voidKey(workspace, token, claim),
    ...moneyKeys(workspace),
    token,
    fingerprint: slot?.fingerprint ?? '',
    slot_lease_ms: slot?.leaseMs ?? 0,
    slot_ttl_ms: slot?.ttlMs ?? 0,
    reserves: reservation === null ? 0 : 1,
    key_id: reservation?.keyId ?? '',
    platform: reservation?.platformMicros ?? 0,
    spend: reservation?.spendMicros ?? 0,
    lease_ms: reservation?.leaseMs ?? 0,
    key_budget: reservation?.keyBudgetMicros ?? '',
    ...termInputs(terms),
    claim: claim?.number ?? NO_CLAIM,
    end_user: keys.endUser(workspace, reservation?.endUser?.account ?? NO_END_USER),
    end_user_account: reservation?.endUser?.account ?? '',
    end_user_budget: reservation?.endUser?.budgetMicros ?? 0,
  }
}

/** The terms of a workspace, as scripts take them. */
function termInputs(terms: AccountTerms | undefined) {
  return {
    workspace_budget: terms?.budgetMicros ?? '',
    grant_id: terms?.grant?.id ?? '',
    grant: terms?.grant?.micros ?? 0,
    trial: terms?.trial?.allowanceMicros ?? '',
    trial_ends_ms: terms?.trial?.expiresAtMs ?? 0,
  }
}

function leaseInputs({ token, workspace, from, held, used, more, useMs }: Leasing) {
  return {
    void: voidKey(workspace, token, undefined),
    ...moneyKeys(workspace),
    token,
    from: from?.token ?? '',
    charge_platform: from?.charge.platformMicros ?? 0,
    charge_spend: from?.charge.spendMicros ?? 0,
    charge_overage: from?.charge.overageMicros ?? 0,
    key_id: held.keyId,
    held_platform: held.platformMicros,
    held_spend: held.spendMicros,
    lease_ms: held.leaseMs,
    key_budget: held.keyBudgetMicros ?? '',
    ...termInputs(held.terms),
    more_platform: more.platformMicros,
    more_spend: more.spendMicros,
    use_ms: useMs,
    used_platform: used.platformMicros,
    used_spend: used.spendMicros,
  }
}

function recoverInputs({ token, workspace, charge, estimate, endUser }: HeldMoney) {
  return {
    ...moneyKeys(workspace),
    end_user: keys.endUser(workspace, endUser ?? NO_END_USER),
    token,
    charge_platform: charge.platformMicros,
    charge_spend: charge.spendMicros,
    charge_overage: charge.overageMicros,
    estimate_platform: estimate.platformMicros,
    estimate_spend: estimate.spendMicros,
  }
}

function settleInputs({ token, workspace, slot, charge, claim, endUser }: Settlement) {
  const end = slot?.end
  return {
    slot: keys.slot(workspace, slot?.id ?? NO_SLOT),
    ...moneyKeys(workspace),
    end_user: keys.endUser(workspace, endUser ?? NO_END_USER),
    token,
    end: end?.state ?? '',
    result: end?.state === 'stored' ? JSON.stringify(end.result) : '',
    ttl_ms: end === undefined || end.state === 'released' ? 0 : end.ttlMs,
    charges: charge === null ? 0 : 1,
    platform: charge?.platformMicros ?? 0,
    spend: charge?.spendMicros ?? 0,
    claim: claim?.number ?? NO_CLAIM,
  }
}

function cancelInputs({ token, workspace, slotId, claim, endUser }: Cancellation) {
  return {
    slot: keys.slot(workspace, slotId ?? NO_SLOT),
    void: voidKey(workspace, token, claim),
    ...moneyKeys(workspace),
    end_user: keys.endUser(workspace, endUser ?? NO_END_USER),
    token,
    has_slot: slotId === null ? 0 : 1,
    void_ms: VOID_MS,
    claim: claim?.number ?? NO_CLAIM,
  }
}

/** Key that says that a token, or one claim of it, must not begin. */
function voidKey(workspace: string, token: string, claim: JobClaim | undefined): string {
  return keys.void(workspace, claim === undefined ? token : `${token}#${claim.number}`)
}

const REFUSALS: ReadonlySet<string | null | undefined> = new Set<Shortage | 'voided'>([
  ...(['credits', 'trial', 'key_budget', 'workspace_budget', 'end_user_budget', 'voided'] as const),
])
const isRefusal = (why: string | null | undefined): why is Shortage | 'voided' => REFUSALS.has(why)

function begunOf(reply: unknown): Begun {
  const [state, why] = replyTexts(reply)
  if (state === 'begun') return { state }
  if (state === 'refused' && isRefusal(why)) return { state, why }
  return usedSlotOf(reply)
}

function leasedOf(reply: unknown): Leased {
  const [state, platform, spend, useMs, month] = replyTexts(reply)
  if (state !== 'leased') return { state: 'over' }
  const more = { platformMicros: replyInteger(platform), spendMicros: replyInteger(spend) }
  return { state, more, useMs: replyInteger(useMs), month: replyText(month) }
}

function slotViewOf(reply: unknown): SlotView {
  const [state] = replyTexts(reply)
  return state === 'free' ? { state } : usedSlotOf(reply)
}

/** The content of a slot that is not free. */
function usedSlotOf(reply: unknown): Exclude<SlotView, { state: 'free' }> {
  const [state, fingerprint, result] = replyTexts(reply)
  if (state === 'running' || state === 'burned') return { state }
  if (state === 'stored')
    return {
      state,
      fingerprint: replyText(fingerprint),
      result: JSON.parse(replyText(result)) as StoredResult,
    }
  throw new Error(`a script replied ${state}`)
}
