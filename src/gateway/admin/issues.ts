import { GatewayError } from '../../contracts/errors.ts'
import { withoutForeign } from '../catalog/parts.ts'
import type { Role } from './actor.ts'

/** So that a refusal is not longer than what it refuses. */
const SHOWN_MAX = 50
export const ISSUE_LENGTH_MAX = 300

/** Issues of a catalog as a role may read them: an admin does not learn what belongs to others. */
export function issuesFor(role: Role, issues: readonly string[]): string[] {
  return role === 'operator' ? [...issues] : issues.map(withoutForeign)
}

/** Refuses a change that would leave the catalog with issues, or that something prevents. */
export function issuesError(issues: readonly string[]): GatewayError {
  const details = issueDetails(issues)
  return new GatewayError('INVALID_REQUEST', details.issues[0], { details })
}

/** Issues as `details` of an error. */
export function issueDetails(issues: readonly string[]): { readonly issues: readonly string[] } {
  const shown = issues.slice(0, SHOWN_MAX).map((line) => line.slice(0, ISSUE_LENGTH_MAX).toWellFormed())
  const more = issues.length - shown.length
  return { issues: more > 0 ? [...shown, `and ${more} more`] : shown }
}
