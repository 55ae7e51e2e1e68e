import type { AlertTerms } from '../../../contracts/alerts.ts'
import type { Snapshot } from '../../../contracts/catalog.ts'
import type { EndUserSample } from '../../../contracts/console.ts'
import type { EndUserBudget, Settled } from '../../../contracts/ledger.ts'
import { type Clock, systemClock } from '../../../contracts/time.ts'
import type { AdmittedContext } from './call-context.ts'

/** End users that are named in a step: samples are kept for an hour. */
const NAMED_MAX = 50
/** An end user who keeps calling is named again after so long, for receivers that came later. */
const NAMED_AGAIN_MS = 4 * 60_000
/** End users of whom it is known when they were named. */
const KNOWN_MAX = 10_000

type Shares = readonly { readonly workspace: string | null; readonly share: number }[]

/**
 * Names end users who are near the end of their budgets, for the samples of this node. Whether they still are is known
 * to the state alone: other nodes charge them, too. Without a rule that asks for it nothing is done.
 */
export class EndUserWatch {
  readonly #snapshot: () => Pick<Snapshot, 'alerts'>
  readonly #clock: Clock
  #alerts: AlertTerms | undefined
  #shares: Shares = []
  #named: EndUserSample[] = []
  /** By workspace, account and whether it was refused: when it was named last. */
  readonly #namedAtMs = new Map<string, number>()

  constructor(snapshot: () => Pick<Snapshot, 'alerts'>, clock: Clock = systemClock) {
    this.#snapshot = snapshot
    this.#clock = clock
  }

  /** A call has ended that was charged to a budget. @param settled null: not known yet; never rejects */
  charged(context: AdmittedContext, budget: EndUserBudget, settled: Promise<Settled | null>): void {
    const share = this.#shareFor(context.principal.workspace.id)
    if (share === null) return
    void settled.then((taken) => {
      const spentMicros = taken?.endUserMicros
      if (spentMicros !== undefined && spentMicros >= share * budget.budgetMicros)
        this.#name(context, budget.account, false)
    })
  }

  /** A budget does not cover a call. It may have been spent before alerts were configured. */
  refused(context: AdmittedContext, { account }: EndUserBudget): void {
    if (this.#shareFor(context.principal.workspace.id) !== null) this.#name(context, account, true)
  }

  /** End users who were named since it was called last. */
  take(): readonly EndUserSample[] {
    const named = this.#named
    if (named.length > 0) this.#named = []
    return named
  }

  /** The smallest share that a rule for the workspace has; null: none has. */
  #shareFor(workspace: string): number | null {
    const { alerts } = this.#snapshot()
    if (alerts !== this.#alerts) {
      this.#alerts = alerts
      this.#shares = sharesOf(alerts)
    }
    let least: number | null = null
    for (const { workspace: only, share } of this.#shares)
      if ((only === null || only === workspace) && share < (least ?? 2)) least = share
    return least
  }

  #name(context: AdmittedContext, account: string, isRefused: boolean): void {
    if (this.#named.length === NAMED_MAX) return
    const workspace = context.principal.workspace.id
    const key = `${workspace} ${account} ${isRefused}`
    const nowMs = this.#clock.now()
    const namedAtMs = this.#namedAtMs.get(key)
    if (namedAtMs !== undefined && nowMs - namedAtMs < NAMED_AGAIN_MS) return
    if (this.#namedAtMs.size === KNOWN_MAX) this.#namedAtMs.clear()
    this.#namedAtMs.set(key, nowMs)
    const refused = isRefused ? ({ isRefused } as const) : {}
    this.#named.push({ workspace, account, id: context.keptEndUser, ...refused })
  }
}

function sharesOf(alerts: AlertTerms | undefined): Shares {
  return (alerts?.rules ?? []).filter((rule) => rule.kind === 'end_user_budget')
}
