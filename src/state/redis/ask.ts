import { GatewayError } from '../../errors.ts'
import type { RedisConnection } from './connect.ts'
import { within } from './within.ts'

/** What a caller waits at most. */
const LIMIT_MS = 2_000

/**
 * Runs a command on the connection.
 *
 * @throws GatewayError DEPENDENCY_UNAVAILABLE, at once while there is no connection and after 2 s when no answer comes.
 *         Whether the command was executed is unknown then.
 */
export type Ask = <Answer>(command: (redis: RedisConnection) => Promise<Answer>) => Promise<Answer>

export function askOf(redis: RedisConnection): Ask {
  return async (command) => {
    try {
      if (redis.status !== 'ready') throw new Error(`the connection is ${redis.status}`)
      return await within(LIMIT_MS, command(redis))
    } catch (cause) {
      throw new GatewayError('DEPENDENCY_UNAVAILABLE', undefined, { cause })
    }
  }
}
