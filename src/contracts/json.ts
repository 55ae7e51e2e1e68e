import { hash } from 'node:crypto'

/** A JSON object from outside: nothing about its members is known until they are checked. */
export type JsonObject = Readonly<Record<string, unknown>>

/** JSON with the keys of every object sorted: equal for values that say the same. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_key, part: unknown) => {
    if (typeof part !== 'object' || part === null || Array.isArray(part)) return part
    return Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)))
  })
}

/** Lower-case hex SHA-256 of a catalog record's fields: equal for records that say the same. */
export function hashFields(fields: object): string {
  return hash('sha256', canonicalJson(fields))
}
