import { once } from 'node:events'
import type { Logger } from '../../log.ts'
import type { State } from '../../schema/state.ts'
import { connect } from './connect.ts'
import { RedisRateLimiter } from './rate-limiter.ts'
import { within } from './within.ts'

/** How long a health check waits for Redis. */
const HEALTH_TIMEOUT_MS = 500

/** How long the start waits for Redis. A node whose Redis is away starts nevertheless, and finds it later. */
const START_TIMEOUT_MS = 2_000

/**
 * State that all nodes share. Never rejects: until Redis answers, `healthy` says so.
 *
 * @param url `redis://` or `rediss://`, with user, password and database where they are needed; never logged
 */
export async function createRedisState(options: {
  readonly url: string
  readonly log: Logger
}): Promise<State> {
  const { url, log } = options
  const limiter = connect(url, 'larkway-limiter', log)
  await once(limiter, 'ready', { signal: AbortSignal.timeout(START_TIMEOUT_MS) }).catch(() => {})
  return {
    kind: 'redis',
    rateLimiter: new RedisRateLimiter(limiter, log),
    async healthy() {
      try {
        return (await within(HEALTH_TIMEOUT_MS, limiter.ping())) === 'PONG'
      } catch {
        return false
      }
    },
    async close() {
      limiter.disconnect()
    },
  }
}
