import type { Logger } from '../../log.ts'
import type { State } from '../../schema/state.ts'
import { createRedisAccounts } from './accounts.ts'
import { askOf } from './ask.ts'
import { createRedisCatalog } from './catalog.ts'
import { type RedisConnection, redisConnector } from './connect.ts'
import { createRedisConsole } from './console.ts'
import { warnOfLosses } from './durability.ts'
import { createRedisJobs, listenToJobs } from './jobs.ts'
import { createRedisLedger } from './ledger.ts'
import { createRedisOutbox } from './outbox.ts'
import { RedisRateLimiter } from './rate-limiter.ts'
import { createRedisSettings } from './settings.ts'
import { createRedisStoredKeys } from './stored-keys.ts'
import { within } from './within.ts'

/** How long a health check waits for Redis. */
const HEALTH_TIMEOUT_MS = 500

/** How long the start waits for Redis. A node whose Redis is away starts nevertheless, and finds it later. */
const START_TIMEOUT_MS = 2_000

/**
 * State that all nodes share. Until Redis answers, `healthy` says so.
 *
 * @param url as `parseRedisAddress` reads it; never logged
 * @throws Error when the address is not one, without a part of it
 */
export async function createRedisState(options: {
  readonly url: string
  readonly log: Logger
}): Promise<State> {
  const { url, log } = options
  // The limiter gives up early and often: its commands must not wait behind others, nor others behind its.
  const connect = redisConnector(url, log)
  const limiter = connect('larkway-limiter')
  const state = connect('larkway-state')
  const listeners: RedisConnection[] = []
  const checked = readyOf(state).then(() => warnOfLosses(state, log))
  await within(START_TIMEOUT_MS, Promise.all([checked, readyOf(limiter)])).catch(() => {})

  const rateLimiter = new RedisRateLimiter(limiter, log)
  const ask = askOf(state)
  return {
    kind: 'redis',
    rateLimiter,
    ledger: createRedisLedger(ask),
    accounts: createRedisAccounts(ask),
    keys: createRedisStoredKeys(ask),
    settings: createRedisSettings(ask),
    jobs: createRedisJobs(ask, (hints) => void listeners.push(listenToJobs(connect, hints, log))),
    outbox: createRedisOutbox(ask),
    catalog: createRedisCatalog(ask),
    console: createRedisConsole(ask),
    async healthy() {
      try {
        return (await within(HEALTH_TIMEOUT_MS, state.ping())) === 'PONG'
      } catch {
        return false
      }
    },
    async close() {
      await rateLimiter.close()
      limiter.disconnect()
      state.disconnect()
      for (const listener of listeners) listener.disconnect()
    },
  }
}

/** Whenever that is. */
function readyOf(redis: RedisConnection): Promise<void> {
  return new Promise((resolve) => redis.once('ready', resolve))
}
