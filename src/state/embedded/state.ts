import type { State } from '../../schema/state.ts'
import { EmbeddedRateLimiter } from './rate-limiter.ts'

/** State that lives and ends with this process; for one node. */
export function createEmbeddedState(): State {
  return {
    kind: 'embedded',
    rateLimiter: new EmbeddedRateLimiter(),
    healthy: async () => true,
    close: async () => {},
  }
}
