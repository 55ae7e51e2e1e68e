import type { AuditAnswer } from '../../../api/answers.ts'

/** Who did it, where the name alone does not say. */
export function byWhom({ by }: AuditAnswer): { readonly name: string; readonly via: string } {
  const via = { console: 'console', api: 'API', cli: 'command line' }[by.via]
  return { name: by.name === '' ? (by.key_id ?? 'unknown') : by.name, via }
}

/** What became of it: which hash was followed by which, shortened; null: the line has none. */
export function hashesOf({ before, after }: AuditAnswer): string | null {
  if (before === null && after === null) return null
  return `${short(before)} → ${short(after)}`
}

function short(hash: string | null): string {
  return hash === null ? 'none' : hash.slice(0, 8)
}

/** Older lines after those that there are; what came in both is kept once. */
export function joined(newer: readonly AuditAnswer[], older: readonly AuditAnswer[]): readonly AuditAnswer[] {
  const last = newer.at(-1)?.number ?? Number.POSITIVE_INFINITY
  return [...newer, ...older.filter(({ number }) => number < last)]
}
