import { instantMs } from '../../contracts/instants.ts'
import type { AccountTerms } from '../../contracts/ledger.ts'
import type { BudgetFields, WorkspaceFields } from './file.ts'
import type { Issues, Path } from './issues.ts'

/** Resolves how much the workspace may spend. Invalid values are added to `issues`. */
export function resolveTerms(fields: WorkspaceFields, path: Path, issues: Issues): AccountTerms {
  const { credits_usd, grant_id, trial, budget_usd } = fields
  if ((credits_usd === undefined) !== (grant_id === undefined))
    issues.add(
      [...path, 'grant_id'],
      'must come with credits_usd: it identifies the grant, so that it is credited once',
    )
  const grantedMicros = credits_usd === undefined ? 0 : usd(credits_usd, [...path, 'credits_usd'], issues)
  return {
    grant: grant_id === undefined ? null : { id: grant_id, micros: grantedMicros },
    trial: trial === undefined ? null : resolveTrial(trial, [...path, 'trial'], issues),
    budgetMicros: resolveBudget(budget_usd, path, issues),
  }
}

type TrialFields = NonNullable<WorkspaceFields['trial']>

function resolveTrial(
  { allowance_usd, expires_at }: TrialFields,
  path: Path,
  issues: Issues,
): AccountTerms['trial'] {
  const allowanceMicros = usd(allowance_usd, [...path, 'allowance_usd'], issues)
  return { allowanceMicros, expiresAtMs: resolveInstant(expires_at, [...path, 'expires_at'], issues) }
}

/** @returns micro-USD per calendar month in UTC; null: no cap */
export function resolveBudget(fields: BudgetFields | undefined, path: Path, issues: Issues): number | null {
  return fields === undefined ? null : usd(fields.per_month, [...path, 'budget_usd', 'per_month'], issues)
}

/** @returns epoch milliseconds */
export function resolveInstant(text: string, path: Path, issues: Issues): number {
  const ms = instantMs(text)
  if (ms === null) issues.add(path, 'must be a date that exists, such as 2027-01-31T00:00:00Z')
  return ms ?? 0
}

/** An amount as the file has it, in micro-USD: the digits that a number is written with are those that were meant. */
function usd(amount: number, path: Path, issues: Issues): number {
  const micros = parseUsd(String(amount))
  if (micros === null) issues.add(path, 'must be USD with at most 6 decimals')
  return micros ?? 0
}

/** Largest amount that is taken, USD: its micro-USD are far from what a double counts exactly. */
const MOST_USD = 1_000_000_000
const AMOUNT = /^(-?)(\d{1,10})(?:\.(\d{1,6}))?$/

/**
 * Micro-USD of an amount as it is written, e.g. `-12.5`: digit by digit, since a product of doubles may be off.
 *
 * @returns null if it is not a decimal number, has more than 6 decimals, or is beyond a thousand million USD
 */
export function parseUsd(text: string): number | null {
  const [, sign = '', whole = '', decimals = ''] = AMOUNT.exec(text) ?? []
  if (whole === '') return null
  const micros = Number(whole + decimals.padEnd(6, '0'))
  if (micros > MOST_USD * 1_000_000) return null
  return sign === '-' && micros > 0 ? -micros : micros
}

/** Micro-USD as an amount of USD with at least cents: 1500000 is `1.50`, 1 is `0.000001`. @param micros whole */
export function formatUsd(micros: number): string {
  const digits = String(Math.abs(micros)).padStart(7, '0')
  const decimals = digits.slice(-6).replace(/0{1,4}$/, '')
  return `${micros < 0 ? '-' : ''}${digits.slice(0, -6)}.${decimals}`
}
