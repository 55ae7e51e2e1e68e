import { withoutForeign } from '../../../catalog/referred-part.ts'
import { GatewayError } from '../../../errors.ts'
import { faultDetails } from '../strict-fields.ts'
import type { Role } from './answers.ts'

/** Lines about a catalog as a viewer may read them: what belongs to others is not there for an admin. */
export function faultsFor(role: Role, faults: readonly string[]): string[] {
  return role === 'operator' ? [...faults] : faults.map(withoutForeign)
}

/** A change that would leave the catalog at fault, or that something stands against; `details.faults` say why. */
export function refusedFor(faults: readonly string[]): GatewayError {
  const details = faultDetails(faults)
  return new GatewayError('INVALID_REQUEST', details.faults[0], { details })
}
