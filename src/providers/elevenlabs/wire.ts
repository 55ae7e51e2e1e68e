import type { Target } from '../../schema/provider.ts'

/** Headers of every request. */
export function elevenlabsHeaders({ credential }: Target): Record<string, string> {
  return credential === null ? {} : { 'xi-api-key': credential }
}
