import type { Target } from '../../contracts/provider.ts'

/** Headers of every request. */
export function elevenlabsHeaders({ credential }: Target): Record<string, string> {
  return credential === null ? {} : { 'xi-api-key': credential }
}
