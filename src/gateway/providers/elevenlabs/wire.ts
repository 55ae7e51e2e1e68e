import type { Target } from '../../../contracts/provider.ts'

/**
 * Options of every request that brings content. An entry that promises that nothing is kept asks for zero retention,
 * which ElevenLabs refuses to accounts that have none: content of theirs then goes nowhere.
 * https://elevenlabs.io/docs/developers/resources/zero-retention-mode
 */
export function unlogged({ promises }: Target): Readonly<Record<string, string>> {
  return promises?.retention === 'zero' ? UNLOGGED : {}
}

const UNLOGGED = { enable_logging: 'false' }

/** Headers of every request. */
export function elevenlabsHeaders({ credential }: Target): Record<string, string> {
  return credential === null ? {} : { 'xi-api-key': credential }
}
