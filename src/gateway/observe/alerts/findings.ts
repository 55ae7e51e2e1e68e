import type { AlertCondition, AlertRule, Incident } from '../../../contracts/alerts.ts'
import type { Route, Snapshot } from '../../../contracts/catalog.ts'
import type { BudgetName } from '../../../contracts/console.ts'
import type { JobFigures } from '../../../contracts/jobs.ts'
import type { AccountView } from '../../../contracts/ledger.ts'
import type { ModelTable } from '../../../contracts/models.ts'
import type { GivenUp } from '../../../contracts/outbox.ts'
import type { KeyBudget } from '../../catalog/key-table.ts'
import { daysLeft } from '../../providers/facts.ts'
import type { EntryStretch, ModelCalls } from './sample-window.ts'

/** A figure that a rule has found, and the one from which on it is broken. */
export interface Finding {
  readonly subject: Incident['subject']
  readonly value: number
  readonly threshold: number
  /** Workspace that makes such findings itself, as many as it likes; absent: none does. */
  readonly owner?: string
  /** The less of it the worse: what is left of something. */
  readonly falls?: true
  /** True when nothing is left of a budget, or it did not cover a call. Absent: the finding is not about a budget. */
  readonly isExhausted?: boolean
}

/** How a figure stands: `between` neither begins an incident nor ends one. */
export type Standing = 'broken' | 'between' | 'well'

/** How far a figure has to be on the good side of its threshold: one that moves about it must not flap. */
export const MARGIN = 0.1

export function standingOf({ value, threshold, falls }: Finding): Standing {
  if (falls === true ? value <= threshold : value >= threshold) return 'broken'
  const isWell = falls === true ? value > threshold * (1 + MARGIN) : value < threshold * (1 - MARGIN)
  return isWell ? 'well' : 'between'
}

type Condition<Kind extends AlertCondition['kind']> = Extract<AlertRule, { readonly kind: Kind }>

/** An account with a budget, of itself or of one of its keys. */
export interface BudgetedAccount {
  readonly workspace: string
  readonly budgetMicros: number | null
  /** Key id → cap. */
  readonly keys: ReadonlyMap<string, number>
}

/** Workspaces that have a budget, or a key with one. Keys of the state among them, without the revoked ones. */
export function budgetedAccounts(
  { apps, keys }: Pick<Snapshot, 'apps' | 'keys'>,
  stored: readonly KeyBudget[],
): BudgetedAccount[] {
  const caps = new Map<string, Map<string, number>>()
  const add = (workspace: string, key: string, micros: number | null) => {
    if (micros === null || micros === 0) return
    const own = caps.get(workspace) ?? new Map<string, number>()
    caps.set(workspace, own.set(key, micros))
  }
  for (const { workspace, key } of keys.values()) add(workspace.id, key.id, key.budgetMicros)
  for (const { workspace, id, budgetMicros } of stored) add(workspace, id, budgetMicros)
  return [...apps].flatMap(([workspace, named]) => {
    const [app] = named.values()
    const budgetMicros = app?.workspace.terms.budgetMicros || null
    const own = caps.get(workspace) ?? new Map<string, number>()
    return budgetMicros === null && own.size === 0 ? [] : [{ workspace, budgetMicros, keys: own }]
  })
}

/** Shares of budgets that are used up, of one account: 0.8 is 80 %. @param refused budgets that did not cover a call */
export function budgetFindings(
  { share: threshold }: Condition<'budget'>,
  { workspace, budgetMicros, keys }: BudgetedAccount,
  { spentMicros, spentByKey }: Pick<AccountView, 'spentMicros' | 'spentByKey'>,
  refused: readonly BudgetName[],
): Finding[] {
  const own = new Set(refused.flatMap((one) => (one.workspace === workspace ? [one.key] : [])))
  const found = (value: number, key: string | null) => {
    return { value, threshold, isExhausted: isExhausted(value, threshold, own.has(key)) }
  }
  const ofKeys = [...keys].map(([key, micros]) => {
    return { subject: { workspace, key }, owner: workspace, ...found((spentByKey[key] ?? 0) / micros, key) }
  })
  if (budgetMicros === null) return ofKeys
  return [{ subject: { workspace }, ...found(spentMicros / budgetMicros, null) }, ...ofKeys]
}

/** A call that was refused before there was more to spend, as in another month, exhausts nothing. */
export function isExhausted(value: number, threshold: number, isRefused: boolean): boolean {
  return value >= 1 || (isRefused && value >= threshold)
}

/** The workspace that a provider belongs to, by the provider's name; null: it is one of the platform. */
export type OwnerOf = (provider: string) => string | null

/** Owner of findings about providers that no route has any more: no workspace is called so. */
export const OWNER_GONE = '*gone'

/** @returns owners of the providers that routes have, and `OWNER_GONE` of others */
export function ownersIn(routes: readonly Pick<Route, 'entries'>[]): OwnerOf {
  const owners = new Map<string, string | null>()
  for (const { entries } of routes)
    for (const { provider } of entries) owners.set(provider.name, provider.workspace)
  return (provider) => {
    const owner = owners.get(provider)
    return owner === undefined ? OWNER_GONE : owner
  }
}

function owned(owner: string | null): Pick<Finding, 'owner'> {
  return owner === null ? {} : { owner }
}

/** Whether a route has the model that an incident is of. */
export function isRouted(routes: readonly Pick<Route, 'entries'>[], { subject }: Incident): boolean {
  return routes.some(({ entries }) =>
    entries.some(({ provider, model }) => provider.name === subject.provider && model === subject.model),
  )
}

/**
 * Shares of attempts that failed, of models with enough of them. Of an open incident every attempt counts: one that
 * succeeds says that it is over, and none says nothing.
 */
export function errorFindings(
  { share: threshold, minCalls, provider: only }: Condition<'error_share'>,
  models: readonly ModelCalls[],
  open: readonly Incident[],
  ownerOf: OwnerOf,
): Finding[] {
  const isOpen = (provider: string, model: string) =>
    open.some(({ subject }) => subject.provider === provider && subject.model === model)
  const isEnough = ({ provider, model, calls }: ModelCalls) =>
    calls >= minCalls || (calls > 0 && isOpen(provider, model))
  return models
    .filter((one) => isEnough(one) && (only === null || one.provider === only))
    .map(({ provider, model, calls, failed }) => {
      return { subject: { provider, model }, ...owned(ownerOf(provider)), value: failed / calls, threshold }
    })
}

/** For how many seconds breakers have not been closed, the longest of each model. */
export function breakerFindings(
  { forMs, provider: only }: Condition<'breaker_open'>,
  stretches: readonly EntryStretch[],
  ownerOf: OwnerOf,
): Finding[] {
  return stretches
    .filter(({ provider }) => only === null || provider === only)
    .map(({ provider, model, ms }) => {
      const value = Math.round(ms / 1_000)
      return { subject: { provider, model }, ...owned(ownerOf(provider)), value, threshold: forMs / 1_000 }
    })
}

/** Events that were given up, by workspace. @param counts of the window of the rule */
export function deadWebhookFindings(
  { events: threshold, workspace: only }: Condition<'dead_webhooks'>,
  counts: readonly GivenUp[],
): Finding[] {
  return counts
    .filter(({ workspace }) => only === null || workspace === only)
    .map(({ workspace, events }) => ({ subject: { workspace }, value: events, threshold }))
}

/** Jobs that are ready, and the seconds for which the first of them has been, by kind. */
export function backlogFindings(
  { jobs, ageMs }: Condition<'backlog'>,
  { waiting }: Pick<JobFigures, 'waiting'>,
): Finding[] {
  const kinds = Map.groupBy(waiting, ({ kind }) => kind)
  return [...kinds].flatMap(([queue, modes]) => {
    const ready = modes.reduce((sum, mode) => sum + mode.ready, 0)
    const oldestMs = Math.max(...modes.map((mode) => mode.oldestMs))
    return [
      ...(jobs === null ? [] : [{ subject: { queue, figure: 'jobs' }, value: ready, threshold: jobs }]),
      ...(ageMs === null
        ? []
        : [
            {
              subject: { queue, figure: 'seconds' },
              value: Math.round(oldestMs / 1_000),
              threshold: ageMs / 1_000,
            },
          ]),
    ]
  })
}

/**
 * Days that are left of models of entries whose end is announced; below 0: it has come. Statements of a
 * workspace about its own provider or in its own route are told in its name, so that they are not mistaken for facts
 * about the platform.
 */
export function endingFindings(
  { days: threshold }: Condition<'model_ends'>,
  routes: readonly Pick<Route, 'workspace' | 'entries'>[],
  models: Pick<ModelTable, 'dated'>,
  nowMs: number,
): Finding[] {
  const found = new Map<string, Finding>()
  for (const { workspace, entries } of routes)
    for (const { provider, model, endsOn } of entries) {
      const table = models.dated(provider.kind, model)
      const announced = endsOn ?? table?.endsOn ?? null
      const value = daysLeft({ endsOn: announced }, nowMs)
      if (announced === null || value === null) continue
      const owner = provider.workspace ?? (endsOn === undefined ? null : workspace)
      const subject = {
        ...(owner === null ? {} : { workspace: owner }),
        ...{ provider: provider.name, model, ends_on: announced },
      }
      found.set(JSON.stringify(subject), { subject, ...owned(owner), value, threshold, falls: true })
    }
  return [...found.values()]
}
