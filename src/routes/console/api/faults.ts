import { GatewayError } from '../../../errors.ts'
import { faultDetails } from '../strict-fields.ts'
import type { Role } from './answers.ts'

/** What tells that a name is there, and another's. */
const FOREIGN: readonly (readonly [RegExp, string])[] = [
  [/: the route ("[^"]*") belongs to another workspace$/, ': there is no route $1'],
  [/: ("[^"]*") belongs to another workspace$/, ': there is no provider $1'],
]

/** Lines about a catalog as a viewer may read them: what belongs to others is not there for an admin. */
export function faultsFor(role: Role, faults: readonly string[]): string[] {
  if (role === 'operator') return [...faults]
  return faults.map((fault) =>
    FOREIGN.reduce((line, [pattern, instead]) => line.replace(pattern, instead), fault),
  )
}

/** A change that would leave the catalog at fault, or that something stands against; `details.faults` say why. */
export function refusedFor(faults: readonly string[]): GatewayError {
  const details = faultDetails(faults)
  return new GatewayError('INVALID_REQUEST', details.faults[0], { details })
}
