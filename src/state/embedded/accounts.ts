import type { AccountTerms, AccountView, CreditsAdded, UsageBatch } from '../../schema/ledger.ts'
import type { AccountRows } from './account-rows.ts'
import type { Grants } from './grants.ts'
import type { Reservations } from './reservations.ts'
import type { Tokens } from './tokens.ts'

/** How long a batch of usage is known: a node that does not hear that it was counted sends it again for minutes. */
const USAGE_MS = 3_600_000
/** Expired reservations that one look at an account counts. */
const EXPIRE_PER_SHOW = 1_000

interface AccountParts {
  readonly rows: AccountRows
  readonly grants: Grants
  readonly reservations: Reservations
  readonly tokens: Tokens
  readonly now: () => number
}

/** The methods of `Accounts`, each within a transaction of its caller. */
export function createAccounts({ rows, grants, reservations, tokens, now }: AccountParts) {
  return {
    show(workspace: string, { grant }: AccountTerms): AccountView {
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
        month: account.month,
        spentMicros: account.spentMicros,
        spentByKey: rows.spentByKey(account),
      }
    },

    addCredits(workspace: string, grant: { readonly id: string; readonly micros: number }): CreditsAdded {
      const nowMs = now()
      const account = rows.load(workspace, nowMs)
      const booked = grants.book(account, grant, nowMs)
      rows.save(account)
      return { booked, creditsMicros: account.creditsMicros }
    },

    addUsage({ token, workspace, spentMicros }: UsageBatch): void {
      const nowMs = now()
      if (tokens.knows(workspace, token, 'usage', nowMs)) return
      tokens.remember(workspace, token, 'usage', nowMs + USAGE_MS)
      const account = rows.load(workspace, nowMs)
      for (const [keyId, micros] of Object.entries(spentMicros)) rows.spend(account, keyId, micros)
      rows.save(account)
    },
  }
}
