import type { Target } from '../../../contracts/provider.ts'

/**
 * Options of every request that brings content. An entry that promises that nothing is kept, or that nothing is trained
 * with it, opts out of what Deepgram does with it otherwise.
 * https://developers.deepgram.com/docs/the-deepgram-model-improvement-partnership-program
 */
export function optOut({ promises }: Target): Readonly<Record<string, string>> {
  return promises?.retention === 'zero' || promises?.training === 'never' ? OPTED_OUT : {}
}

const OPTED_OUT = { mip_opt_out: 'true' }

/** Headers of every request. */
export function deepgramHeaders({ credential }: Target): Record<string, string> {
  return credential === null ? {} : { authorization: `Token ${credential}` }
}
