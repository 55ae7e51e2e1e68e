import { hash } from 'node:crypto'
import type { Calls, OperationName } from '../schema/operations.ts'
import type { Selectors } from '../schema/selectors.ts'

/**
 * What makes two calls that are not about audio the same: what is asked of the model after defaults, in whatever order
 * its members came, and the selectors in effect, wherever the purpose stood.
 *
 * @returns lower-case hex
 */
export function callFingerprint<K extends OperationName>(
  operation: K,
  payload: Calls[K],
  { purpose, responseProfile }: Selectors,
): string {
  return hash('sha256', canonicalJson([operation, payload, purpose?.label ?? null, responseProfile]))
}

/** JSON with the members of every object sorted by their names. */
function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_name, part: unknown) => {
    if (typeof part !== 'object' || part === null || Array.isArray(part)) return part
    return Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)))
  })
}
