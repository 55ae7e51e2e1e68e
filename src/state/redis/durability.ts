import { type Logger, messageOf } from '../../log.ts'
import { primariesOf, type RedisConnection } from './connect.ts'

/**
 * Logs one line for each setting with which the servers may lose what was acknowledged. Where they do not let us read
 * their settings it says nothing. Never rejects.
 */
export async function warnOfLosses(redis: RedisConnection, log: Logger): Promise<void> {
  try {
    const servers = primariesOf(redis)
    const reports = await Promise.all(servers.map((server) => server.info()))
    const policies = reports.map((report) => /^maxmemory_policy:(\S+)/m.exec(report)?.[1])
    const evicts = policies.find((policy) => policy !== undefined && policy !== 'noeviction')
    if (evicts !== undefined)
      log.warn(
        { maxmemory_policy: evicts },
        'Redis evicts keys when its memory is full, and with them credits and idempotency keys: set noeviction',
      )
    if (reports.some((report) => /^aof_enabled:0/m.test(report)))
      log.warn(
        'Redis keeps no append-only file: what was acknowledged may be lost when it ends: set appendonly yes',
      )
    const logging = servers.filter((_, i) => /^aof_enabled:1/m.test(reports[i] ?? ''))
    const syncs = await Promise.all(logging.map(async (server) => server.config('GET', 'appendfsync')))
    const late = syncs.map(settingOf).find((value) => value !== undefined && value !== 'always')
    if (late !== undefined)
      log.warn(
        { appendfsync: late },
        'Redis acknowledges before it has written to the disk, and may lose accepted jobs: set appendfsync always',
      )
  } catch (error) {
    log.debug({ reason: messageOf(error) }, 'the settings of Redis cannot be read')
  }
}

/** The value in what CONFIG GET answers about one setting. */
function settingOf(reply: unknown): string | undefined {
  return Array.isArray(reply) && typeof reply[1] === 'string' ? reply[1] : undefined
}
