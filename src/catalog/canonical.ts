import { hash } from 'node:crypto'

/** JSON with the keys of every object sorted: equal for values that say the same. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_key, part: unknown) => {
    if (typeof part !== 'object' || part === null || Array.isArray(part)) return part
    return Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)))
  })
}

/** The `hash` of what a record is published with, and of what the audit list tells of. */
export function hashFields(fields: object): string {
  return hash('sha256', canonicalJson(fields))
}
