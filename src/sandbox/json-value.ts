/** A member of a value that may be no object at all. */
export function memberOf(value: unknown, name: string): unknown {
  const holds = typeof value === 'object' && value !== null && Object.hasOwn(value, name)
  return holds ? (value as Readonly<Record<string, unknown>>)[name] : undefined
}

/** A member that is a list; empty when it is none. */
export function listOf(value: unknown, name: string): readonly unknown[] {
  const list = memberOf(value, name)
  return Array.isArray(list) ? list : []
}

export function textOf(value: unknown): string | null {
  return typeof value === 'string' ? value : null
}
