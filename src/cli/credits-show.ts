import { formatUsd } from '../catalog/money.ts'
import type { Snapshot } from '../schema/catalog.ts'
import type { AccountTerms, AccountView } from '../schema/ledger.ts'
import type { StoredKey } from '../schema/stored-keys.ts'
import { parse } from './arguments.ts'
import { type Desk, environmentOf, servedAt, termsOf, workspaceIn } from './desk.ts'
import { withState } from './state.ts'
import { table } from './table.ts'

const FLAGS = {
  workspace: { type: 'string' },
  config: { type: 'string' },
  json: { type: 'boolean' },
} as const

interface Account {
  readonly workspace: string
  readonly terms: AccountTerms
  readonly view: AccountView
  /** Keys that have spent this month, or that have a budget. */
  readonly keys: readonly KeySpending[]
}

interface KeySpending {
  readonly id: string
  readonly spentMicros: number
  readonly budgetMicros: number | null
}

/**
 * `larkway credits show`: how the account of a workspace stands, or those of all.
 *
 * @throws UsageError, CatalogError, CommandFailure for a workspace that the configuration does not have
 */
export async function showCredits(args: readonly string[], desk: Desk): Promise<void> {
  const { workspace: wanted, config, json } = parse(args, FLAGS, 0).values
  const environment = environmentOf(desk)
  const accounts = await withState(environment, async (state) => {
    const snapshot = await servedAt(desk, config, state)
    const shown = wanted === undefined ? [...snapshot.apps.keys()] : [wanted]
    const terms = new Map(shown.map((workspace) => [workspace, termsOf(workspaceIn(snapshot, workspace))]))
    const { accounts, keys } = state
    const stored = await keys.list()
    const read: Account[] = []
    for (const [workspace, termsOfIt] of terms) {
      const view = await accounts.show(workspace, termsOfIt)
      read.push({ workspace, terms: termsOfIt, view, keys: spendingOf(workspace, view, snapshot, stored) })
    }
    return read
  })
  desk.print(
    json === true ? `${JSON.stringify(accounts.map(inJson), null, 2)}\n` : accounts.map(paragraph).join('\n'),
  )
}

function spendingOf(
  workspace: string,
  { spentByKey }: AccountView,
  snapshot: Snapshot,
  stored: readonly StoredKey[],
): KeySpending[] {
  const budgets = new Map<string, number>()
  for (const { workspace: owner, key } of snapshot.keys.values())
    if (owner.id === workspace && key.budgetMicros !== null) budgets.set(key.id, key.budgetMicros)
  for (const key of stored)
    if (key.workspace === workspace && key.revokedAtMs === null && key.budgetMicros !== null)
      budgets.set(key.id, key.budgetMicros)
  const ids = [...new Set([...Object.keys(spentByKey), ...budgets.keys()])].sort()
  return ids.map((id) => ({ id, spentMicros: spentByKey[id] ?? 0, budgetMicros: budgets.get(id) ?? null }))
}

function paragraph({ workspace, terms, view, keys }: Account): string {
  const { trial, budgetMicros } = terms
  const { grants, reservedMicros, trialSpentMicros, overageMicros, expired, month, spentMicros } = view
  const rows = [
    ['credits', `${formatUsd(view.creditsMicros)} USD`],
    ...grants.map(({ id, micros, bookedAtMs }) => [
      '  grant',
      `${formatUsd(micros)} USD as ${id}, ${timeOf(bookedAtMs)}`,
    ]),
    ['trial', trial === null ? 'none' : `${trialText(trialSpentMicros, trial)}`],
    ['reserved', `${formatUsd(reservedMicros)} USD by calls under way`],
    ['overage', `${formatUsd(overageMicros)} USD that calls cost above what was reserved`],
    ['expired', `${formatUsd(expired.micros)} USD in ${expired.count} reservations that no node settled`],
    [`spent in ${month}`, ofBudget(spentMicros, budgetMicros)],
    ...keys.map((key) => [`  ${key.id}`, ofBudget(key.spentMicros, key.budgetMicros)]),
  ]
  return table([[workspace, ''], ...rows])
}

type Trial = NonNullable<AccountTerms['trial']>

function trialText(spentMicros: number, { allowanceMicros, expiresAtMs }: Trial): string {
  const verb = expiresAtMs <= Date.now() ? 'ended' : 'ends'
  return `${formatUsd(spentMicros)} of ${formatUsd(allowanceMicros)} USD, ${verb} ${timeOf(expiresAtMs)}`
}

function ofBudget(spentMicros: number, budgetMicros: number | null): string {
  return `${formatUsd(spentMicros)}${budgetMicros === null ? '' : ` of ${formatUsd(budgetMicros)}`} USD`
}

function inJson({ workspace, terms, view, keys }: Account) {
  const { grants, expired, month } = view
  const { trial, budgetMicros } = terms
  return {
    workspace,
    credits_usd: usd(view.creditsMicros),
    grants: grants.map(({ id, micros, bookedAtMs }) => ({
      id,
      usd: usd(micros),
      booked_at: timeOf(bookedAtMs),
    })),
    trial: trial && {
      allowance_usd: usd(trial.allowanceMicros),
      spent_usd: usd(view.trialSpentMicros),
      expires_at: timeOf(trial.expiresAtMs),
    },
    reserved_usd: usd(view.reservedMicros),
    overage_usd: usd(view.overageMicros),
    expired_reservations: { count: expired.count, usd: usd(expired.micros) },
    month,
    spent_usd: usd(view.spentMicros),
    budget_usd: budgetMicros === null ? null : usd(budgetMicros),
    keys: keys.map((key) => ({
      id: key.id,
      spent_usd: usd(key.spentMicros),
      budget_usd: key.budgetMicros === null ? null : usd(key.budgetMicros),
    })),
  }
}

function usd(micros: number): number {
  return micros / 1_000_000
}

function timeOf(ms: number): string {
  return new Date(ms).toISOString()
}
