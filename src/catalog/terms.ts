import type { AccountTerms } from '../schema/ledger.ts'
import type { Faults, Path } from './faults.ts'
import type { BudgetFields, WorkspaceFields } from './file.ts'
import { instantMs } from './instant.ts'
import { parseUsd } from './money.ts'

/** What the workspace may spend. Every reason why that cannot be said is added to `faults`. */
export function resolveTerms(fields: WorkspaceFields, path: Path, faults: Faults): AccountTerms {
  const { credits_usd, grant_id, trial, budget_usd } = fields
  if ((credits_usd === undefined) !== (grant_id === undefined))
    faults.add([...path, 'grant_id'], 'goes with credits_usd: it names the grant, so that it is booked once')
  const grantedMicros = credits_usd === undefined ? 0 : usd(credits_usd, [...path, 'credits_usd'], faults)
  return {
    grant: grant_id === undefined ? null : { id: grant_id, micros: grantedMicros },
    trial: trial === undefined ? null : resolveTrial(trial, [...path, 'trial'], faults),
    budgetMicros: resolveBudget(budget_usd, path, faults),
  }
}

type TrialFields = NonNullable<WorkspaceFields['trial']>

function resolveTrial(
  { allowance_usd, expires_at }: TrialFields,
  path: Path,
  faults: Faults,
): AccountTerms['trial'] {
  const allowanceMicros = usd(allowance_usd, [...path, 'allowance_usd'], faults)
  return { allowanceMicros, expiresAtMs: resolveInstant(expires_at, [...path, 'expires_at'], faults) }
}

/** @returns micro-USD per calendar month in UTC; null: no cap */
export function resolveBudget(fields: BudgetFields | undefined, path: Path, faults: Faults): number | null {
  return fields === undefined ? null : usd(fields.per_month, [...path, 'budget_usd', 'per_month'], faults)
}

/** @returns epoch milliseconds */
export function resolveInstant(text: string, path: Path, faults: Faults): number {
  const ms = instantMs(text)
  if (ms === null) faults.add(path, 'is no date')
  return ms ?? 0
}

/** An amount as the file has it, in micro-USD: the digits that a number is written with are those that were meant. */
function usd(amount: number, path: Path, faults: Faults): number {
  const micros = parseUsd(String(amount))
  if (micros === null) faults.add(path, 'must be USD with at most 6 decimals')
  return micros ?? 0
}
