import { Redis, type RedisOptions } from 'ioredis'
import type { Logger } from '../../log.ts'

/** Longest pause between two attempts to connect; what a recovered Redis waits for at most. */
const RECONNECT_MS = 1_000
/**
 * A connection that owes an answer for this long is given up and made anew. Without it a connection that a network
 * fault cut silently would hang until TCP gives up, many minutes later.
 */
const SILENT_MS = 2_000

/**
 * A connection that never sends a command twice: what was on its way when the connection broke fails, and so does
 * everything until it is back. It connects by itself, also when Redis comes up later.
 *
 * @param name shown by CLIENT LIST
 * @param log  gets the connection's errors at debug level; whoever uses it logs what an outage means
 */
export function connect(url: string, name: string, log: Logger): Redis {
  const options = {
    connectionName: name,
    enableAutoPipelining: true,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    connectTimeout: SILENT_MS,
    socketTimeout: SILENT_MS,
    // A primary that became a replica refuses writes; the address may lead to the new one by now.
    reconnectOnError: (error) => error.message.startsWith('READONLY'),
    retryStrategy: (attempt) => Math.min(RECONNECT_MS, 25 * 2 ** Math.min(attempt, 10)),
  } satisfies RedisOptions
  const redis = new Redis(url, options)
  redis.on('error', (error: Error) =>
    log.debug({ connection: name, reason: error.message }, 'redis connection'),
  )
  return redis
}
