import type { AlertRule, Incident } from '../../../contracts/alerts.ts'
import { ALERTS_WORKSPACE } from '../../../contracts/alerts.ts'
import type { Route, Snapshot } from '../../../contracts/catalog.ts'
import type { AccountView } from '../../../contracts/ledger.ts'
import type { ModelTable } from '../../../contracts/models.ts'
import type { State } from '../../../contracts/state.ts'
import { readKeys } from '../../catalog/known-keys.ts'
import { GIVEN_UP_KEEP_MS } from '../../webhooks/delivery-outcome.ts'
import { endUserFindings, NAMED_MS } from './end-users.ts'
import {
  type BudgetedAccount,
  backlogFindings,
  breakerFindings,
  budgetedAccounts,
  budgetFindings,
  deadWebhookFindings,
  endingFindings,
  errorFindings,
  type Finding,
  isRouted,
  ownersIn,
} from './findings.ts'
import { SampleWindow } from './sample-window.ts'

/** Accounts that are read in a round, the others in the next ones, and those of them at a time. */
const ACCOUNTS = { perRound: 200, atOnce: 20 }
/** A node says how it fares every 5 s: a stretch is seen when it is longer than asked for by that. */
const STEP_MS = 5_000

interface FigureSources {
  readonly state: Pick<State, 'console' | 'accounts' | 'keys' | 'outbox' | 'jobs' | 'memory'>
  readonly snapshot: () => Snapshot
  readonly routes: () => readonly Route[]
  readonly models: () => ModelTable
}

/** The figures that rules go by, each read once in a round, and only when a rule asks for it. */
export class Figures {
  readonly #sources: FigureSources
  readonly #window: SampleWindow
  #nowMs = 0
  #open: readonly Incident[] = []
  #windowMs = 0
  #samples: Promise<void> | null = null
  #accounts: Promise<ReadonlyMap<BudgetedAccount, AccountView>> | null = null
  /** Workspaces with a budget, and those of them that this round has looked at. */
  #budgeted = new Set<string>()
  #looked = new Set<string>()
  /** Where the next round continues. */
  #nextAccount = 0

  constructor(sources: FigureSources) {
    this.#sources = sources
    const { console: kept } = sources.state
    this.#window = new SampleWindow(kept.samples)
  }

  /** Begins a round. @param open incidents of all rules */
  async begin(rules: readonly AlertRule[], open: readonly Incident[], nowMs: number): Promise<void> {
    this.#nowMs = nowMs
    this.#open = open
    this.#windowMs = Math.max(0, ...rules.map(spanOf))
    this.#samples = null
    this.#accounts = null
  }

  /** @throws GatewayError DEPENDENCY_UNAVAILABLE */
  async of(rule: AlertRule): Promise<readonly Finding[]> {
    const { state, routes, models, snapshot } = this.#sources
    const nowMs = this.#nowMs
    switch (rule.kind) {
      case 'budget':
        return this.#budgetFindings(rule)
      case 'end_user_budget': {
        await this.#readSamples()
        const named = this.#window.endUsers(nowMs, NAMED_MS)
        const { accounts } = state
        return endUserFindings(rule, { named, open: this.#open, snapshot: snapshot(), accounts })
      }
      case 'error_share':
        await this.#readSamples()
        return errorFindings(
          rule,
          this.#window.calls(nowMs, rule.windowMs),
          this.#open.filter((incident) => incident.rule === rule.name),
          ownersIn(routes()),
        )
      case 'breaker_open':
        await this.#readSamples()
        return breakerFindings(rule, this.#window.stretches(nowMs), ownersIn(routes()))
      case 'dead_webhooks': {
        const counts = await state.outbox.givenUp(nowMs - rule.windowMs + GIVEN_UP_KEEP_MS)
        // That a receiver of alerts is dead cannot be told to it.
        return deadWebhookFindings(
          rule,
          counts.filter(({ workspace }) => workspace !== ALERTS_WORKSPACE),
        )
      }
      case 'backlog':
        return backlogFindings(rule, await state.jobs.figures())
      case 'model_ends':
        return endingFindings(rule, routes(), models(), nowMs)
      case 'state_lost':
        return [{ subject: {}, value: state.memory?.isLost === true ? 1 : 0, threshold: 1 }]
    }
  }

  /**
   * Whether finding nothing about the subject means that it is well: for an account only if it was looked at, for a
   * model in use not because it gets no calls.
   */
  covers(rule: AlertRule, incident: Incident): boolean {
    const { workspace = '', provider = '', model = '' } = incident.subject
    if (rule.kind === 'budget') return this.#looked.has(workspace) || !this.#budgeted.has(workspace)
    if (rule.kind !== 'error_share' && rule.kind !== 'breaker_open') return true
    // The rule was narrowed since.
    if (rule.provider !== null && rule.provider !== provider) return true
    // An incident that only counts others has no model.
    if (!isRouted(this.#sources.routes(), incident)) return true
    return rule.kind === 'breaker_open' && this.#window.isClosed(this.#nowMs, provider, model)
  }

  #readSamples(): Promise<void> {
    this.#samples ??= this.#window.read(this.#nowMs, this.#windowMs)
    return this.#samples
  }

  async #budgetFindings(rule: Extract<AlertRule, { readonly kind: 'budget' }>): Promise<Finding[]> {
    this.#accounts ??= this.#readAccounts()
    const [views] = await Promise.all([this.#accounts, this.#readSamples()])
    const refused = this.#window.refusedBudgets(this.#nowMs, NAMED_MS)
    return [...views].flatMap(([account, view]) =>
      rule.workspace === null || rule.workspace === account.workspace
        ? budgetFindings(rule, account, view, refused)
        : [],
    )
  }

  async #readAccounts(): Promise<ReadonlyMap<BudgetedAccount, AccountView>> {
    const { state, snapshot } = this.#sources
    this.#looked = new Set()
    const current = snapshot()
    const all = budgetedAccounts(current, await (await readKeys(state.keys)).budgets())
    this.#budgeted = new Set(all.map(({ workspace }) => workspace))
    if (this.#nextAccount >= all.length) this.#nextAccount = 0
    const chosen = all.slice(this.#nextAccount, this.#nextAccount + ACCOUNTS.perRound)
    this.#nextAccount += chosen.length
    const views = new Map<BudgetedAccount, AccountView>()
    for (let at = 0; at < chosen.length; at += ACCOUNTS.atOnce) {
      const some = chosen.slice(at, at + ACCOUNTS.atOnce)
      await Promise.all(
        some.map(async (account) => {
          const [app] = current.apps.get(account.workspace)?.values() ?? []
          if (app === undefined) return
          views.set(account, await state.accounts.show(account.workspace, app.workspace.terms))
          this.#looked.add(account.workspace)
        }),
      )
    }
    return views
  }
}

/** How far back samples have to go for a rule. */
function spanOf(rule: AlertRule): number {
  if (rule.kind === 'error_share') return rule.windowMs
  if (rule.kind === 'end_user_budget' || rule.kind === 'budget') return NAMED_MS
  return rule.kind === 'breaker_open' ? rule.forMs + 2 * STEP_MS : 0
}
