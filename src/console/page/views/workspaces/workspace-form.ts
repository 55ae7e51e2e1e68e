import type { WorkspaceAnswer } from '../../../server/answers/workspaces.ts'
import { type UnitLimits, unitLimitIssues, unitLimits, unitRates } from '../../components/unit-limits.ts'
import { AMOUNT, BURST_MAX, REQUESTS_PER_MINUTE_MAX, readUsd, readWhole } from '../../fields.ts'
import type { Issues } from '../../form.ts'

/** A workspace's settings, as typed; the limits are of all its keys together. */
export interface WorkspaceForm extends UnitLimits {
  readonly id: string
  readonly name: string
  /** Empty: none, which includes everything. */
  readonly plan: string
  /** USD; empty: no cap. */
  readonly budget: string
  /** USD; empty: no trial. */
  readonly trialAllowance: string
  /** `YYYY-MM-DD`, until the end of that day in UTC. */
  readonly trialEnds: string
  /** USD for each end user; empty: no cap. */
  readonly endUserBudget: string
  /** Requests of each end user; empty: no limit. */
  readonly endUserPerMinute: string
  readonly endUserBurst: string
  readonly hashEndUsers: boolean
}

export function workspaceForm(workspace: WorkspaceAnswer | null): WorkspaceForm {
  const {
    id = '',
    name = '',
    plan = null,
    budget_usd_per_month: budget = null,
    trial = null,
    rate_limit: rates = null,
    end_users: endUsers = null,
  } = workspace ?? {}
  const { hash = false, budget_usd: ofEach, rate_limit: limit } = endUsers ?? {}
  return {
    id,
    name: name === id ? '' : name,
    plan: plan ?? '',
    budget: budget === null ? '' : String(budget),
    ...unitLimits(rates),
    trialAllowance: trial === null ? '' : String(trial.allowance_usd),
    trialEnds: trial === null ? '' : trial.expires_at.slice(0, 10),
    endUserBudget: ofEach === undefined ? '' : String(ofEach.per_month),
    endUserPerMinute: String(limit?.requests_per_minute ?? ''),
    endUserBurst: String(limit?.burst ?? ''),
    hashEndUsers: hash,
  }
}

/** Room is left for the names of its routes, which begin with it. */
const ID = /^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$/

/** An id for a workspace of this name: `acme-corp` for "Acme Corp"; empty where nothing of it can stay. */
export function workspaceId(name: string): string {
  const plain = name.normalize('NFKD').replace(/\p{M}/gu, '').toLowerCase()
  let id = plain
    .replace(/[^a-z0-9._]+/g, '-')
    .replace(/^[-._]+/, '')
    .slice(0, 40)
  while (/[-._]$/.test(id)) id = id.slice(0, -1)
  return id
}

/** @param taken ids of those that there are; null: it is none that is made */
export function workspaceIssues(form: WorkspaceForm, taken: readonly string[] | null): Issues<WorkspaceForm> {
  const issues: { -readonly [Name in keyof WorkspaceForm]?: string | null } = { ...unitLimitIssues(form) }
  const { id, budget, trialAllowance, trialEnds } = form
  if (taken !== null) {
    if (id === '') issues.id = 'Enter an ID.'
    else if (!ID.test(id))
      issues.id = 'Use up to 40 letters, digits, ".", "_" and "-", starting with a letter or digit.'
    else if (taken.includes(id)) issues.id = `"${id}" already exists.`
  }
  if (readUsd(budget) === null) issues.budget = AMOUNT
  if (readUsd(trialAllowance) === null) issues.trialAllowance = AMOUNT
  const hasAllowance = trialAllowance.trim() !== ''
  if (hasAllowance && trialEnds === '') issues.trialEnds = 'Enter an end date.'
  if (!hasAllowance && trialEnds !== '') issues.trialAllowance = 'Enter an amount, or clear the end date.'
  if (readUsd(form.endUserBudget) === null) issues.endUserBudget = AMOUNT
  if (readWhole(form.endUserPerMinute, REQUESTS_PER_MINUTE_MAX) === null)
    issues.endUserPerMinute = 'Enter a whole number, 1 or more.'
  if (readWhole(form.endUserBurst, BURST_MAX) === null)
    issues.endUserBurst = 'Enter a whole number from 1 to 100,000.'
  return issues
}

/**
 * The body of a save; what is null is taken away.
 *
 * @param before whose end of the trial stays to the second where its day does
 */
export function workspaceBody(
  form: WorkspaceForm,
  before: WorkspaceAnswer | null,
): Readonly<Record<string, unknown>> {
  const { name, plan, budget, trialAllowance, trialEnds } = form
  const allowance = readUsd(trialAllowance)
  const known = before?.trial?.expires_at
  const rates = unitRates(form)
  const ends = known?.slice(0, 10) === trialEnds ? known : `${trialEnds}T23:59:59Z`
  return {
    name: name.trim() || null,
    plan: plan || null,
    budget_usd_per_month: readUsd(budget) ?? null,
    trial: typeof allowance === 'number' ? { allowance_usd: allowance, expires_at: ends } : null,
    rate_limit: Object.keys(rates).length === 0 ? null : rates,
    end_users: endUsersOf(form, before),
  }
}

/** The terms of single end users are of the configuration, and stay. */
function endUsersOf(form: WorkspaceForm, before: WorkspaceAnswer | null) {
  const budget = readUsd(form.endUserBudget)
  const perMinute = readWhole(form.endUserPerMinute, REQUESTS_PER_MINUTE_MAX)
  const burst = readWhole(form.endUserBurst, BURST_MAX)
  const { overrides, rate_limit: known } = before?.end_users ?? {}
  const limit = {
    ...(typeof perMinute === 'number' ? { requests_per_minute: perMinute } : {}),
    ...(typeof burst === 'number' ? { burst } : {}),
  }
  // Without numbers of its own the limit is that of every key: the empty fields of the form must not lift it.
  const isDefaultLimit = known !== undefined && Object.keys(known).length === 0
  const endUsers = {
    ...(form.hashEndUsers ? { hash: true } : {}),
    ...(typeof budget === 'number' ? { budget_usd: { per_month: budget } } : {}),
    ...(Object.keys(limit).length > 0 || isDefaultLimit ? { rate_limit: limit } : {}),
    ...(overrides === undefined ? {} : { overrides }),
  }
  return Object.keys(endUsers).length === 0 ? null : endUsers
}

/** Identifies an addition of credits, so that it counts once however often it is sent. */
export function newGrantId(now: Date, random: () => number): string {
  const part = Math.floor(random() * 36 ** 6)
    .toString(36)
    .padStart(6, '0')
  return `console-${now.toISOString().slice(0, 10)}-${part}`
}
