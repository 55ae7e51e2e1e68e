import type { WorkspaceAnswer } from '../../../server/api/answers.ts'
import { readUsd } from '../providers/facts.ts'

/** A workspace's settings, as typed. */
export interface WorkspaceForm {
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
}

export function workspaceForm(workspace: WorkspaceAnswer | null): WorkspaceForm {
  const {
    id = '',
    name = '',
    plan = null,
    budget_usd_per_month: budget = null,
    trial = null,
  } = workspace ?? {}
  return {
    id,
    name: name === id ? '' : name,
    plan: plan ?? '',
    budget: budget === null ? '' : String(budget),
    trialAllowance: trial === null ? '' : String(trial.allowance_usd),
    trialEnds: trial === null ? '' : trial.expires_at.slice(0, 10),
  }
}

type WorkspaceIssues = Partial<Readonly<Record<keyof WorkspaceForm, string>>>

/** Room is left for the names of its routes, which begin with it. */
const ID = /^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$/

/** An id for a workspace of this name: `acme-corp` for "Acme Corp"; empty where nothing of it can stay. */
export function idOf(name: string): string {
  const plain = name.normalize('NFKD').replace(/\p{M}/gu, '').toLowerCase()
  return plain
    .replace(/[^a-z0-9._]+/g, '-')
    .replace(/^[-._]+/, '')
    .slice(0, 40)
    .replace(/[-._]+$/, '')
}

/** @param taken ids of those that there are; null: it is none that is made */
export function workspaceIssues(form: WorkspaceForm, taken: readonly string[] | null): WorkspaceIssues {
  const issues: Partial<Record<keyof WorkspaceForm, string>> = {}
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
  return issues
}

const AMOUNT = 'Enter an amount in USD, such as 25 or 12.50.'

/**
 * The body of a save; what is null is taken away.
 *
 * @param before whose end of the trial stays to the second where its day does
 */
export function bodyOf(
  form: WorkspaceForm,
  before: WorkspaceAnswer | null,
): Readonly<Record<string, unknown>> {
  const { name, plan, budget, trialAllowance, trialEnds } = form
  const allowance = readUsd(trialAllowance)
  const known = before?.trial?.expires_at
  const ends = known?.slice(0, 10) === trialEnds ? known : `${trialEnds}T23:59:59Z`
  return {
    name: name.trim() || null,
    plan: plan || null,
    budget_usd_per_month: readUsd(budget) ?? null,
    trial: typeof allowance === 'number' ? { allowance_usd: allowance, expires_at: ends } : null,
  }
}

/** Identifies an addition of credits, so that it counts once however often it is sent. */
export function newGrantId(now: Date, random: () => number): string {
  const part = Math.floor(random() * 36 ** 6)
    .toString(36)
    .padStart(6, '0')
  return `console-${now.toISOString().slice(0, 10)}-${part}`
}
