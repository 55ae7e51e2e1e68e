import type { Target } from '../../contracts/provider.ts'

/** Headers of every request. */
export function deepgramHeaders({ credential }: Target): Record<string, string> {
  return credential === null ? {} : { authorization: `Token ${credential}` }
}
