import { PARTITIONS } from '../../../contracts/ids.ts'
import { errorMessage, type Logger } from '../../../contracts/log.ts'
import type { State, StateHints } from '../../../contracts/state.ts'
import { type Clock, systemClock, within } from '../../../contracts/time.ts'
import { createRedisAccounts } from './accounts.ts'
import { createRedisAlerts } from './alerts.ts'
import { createRedisCatalog } from './catalog.ts'
import type { Connect, RedisConnection } from './connect.ts'
import { connected, isRefusal, primariesOf, redisConnector } from './connect.ts'
import { createRedisConsole } from './console.ts'
import { grantedOnce, RedisGeneration } from './generation.ts'
import { createRedisJobs } from './jobs.ts'
import { keys } from './key-names.ts'
import { createRedisLedger } from './ledger.ts'
import { OutageLog, type OutageTiming, type RedisTiming } from './outage-log.ts'
import { createRedisOutbox } from './outbox.ts'
import { RedisPermits } from './permits.ts'
import { RedisRateLimiter } from './rate-limiter.ts'
import { askOf } from './script.ts'
import { createRedisSettings } from './settings.ts'
import { createRedisStoredKeys } from './stored-keys.ts'
import { RedisUnitLimiter } from './unit-limiter.ts'

/** Where the scripts publish hints. */
const CHANNEL = 'lk:jobs'
const HINT = /^(?:queued (\d{1,2})|changed (\S{1,64})|settings)$/

/** How long a health check waits for Redis. */
const HEALTH_TIMEOUT_MS = 500

/** How long its answer holds: readiness needs no API key, and each write may be one to a disk. */
const HEALTH_MS = 250
/** How long Redis keeps what it wrote. */
const HEALTH_KEPT_MS = 60_000

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
  readonly timing?: Partial<RedisTiming> | undefined
  readonly clock?: Clock
}): Promise<State> {
  const { url, log, timing: { calmMs, lookMs } = {}, clock = systemClock } = options
  // The limiter gives up early and often: its commands must not wait behind others, nor others behind its.
  const connect = redisConnector(url, log, { calmMs, clock })
  const limiter = connect('larkway-limiter')
  const state = connect('larkway-state')
  const listeners: RedisConnection[] = []
  const checked = connected(state).then(() => warnOfLosses(state, log))
  await within(START_TIMEOUT_MS, Promise.all([checked, connected(limiter)]), clock).catch(() => {})

  const rateLimiter = new RedisRateLimiter(limiter, log, { calmMs, clock })
  const permits = new RedisPermits(limiter, log, { ...(calmMs === undefined ? {} : { calmMs }), clock })
  const ask = askOf(state)
  const generation = new RedisGeneration(state, ask, log, { lookMs, clock })
  return {
    kind: 'redis',
    rateLimiter,
    unitLimiter: new RedisUnitLimiter(limiter, log, { calmMs, clock }),
    permits,
    memory: generation,
    ...grantedOnce({ ledger: createRedisLedger(ask), accounts: createRedisAccounts(ask) }, generation),
    keys: createRedisStoredKeys(ask),
    settings: createRedisSettings(ask),
    jobs: createRedisJobs(ask, clock),
    jobInputs: null, // many jobs may wait, and Redis has all of them in memory
    outbox: createRedisOutbox(ask, clock),
    alerts: createRedisAlerts(ask),
    catalog: createRedisCatalog(ask),
    console: createRedisConsole(ask, clock),
    listen: (hints) => void listeners.push(listenToHints(connect, hints, log)),
    healthy: createHealth(state, log, { calmMs, clock }),
    async clockMs() {
      const [seconds, micros] = (await primariesOf(state)[0]?.time()) ?? []
      return Number(seconds) * 1_000 + Number(micros) / 1_000
    },
    blocked: () => null,
    async close() {
      generation.close()
      await Promise.all([rateLimiter.close(), permits.close()])
      limiter.disconnect()
      state.disconnect()
      for (const listener of listeners) listener.disconnect()
    },
  }
}

/** Finds out whether Redis takes writes: one that is full, or a replica by now, still answers a PING. */
function createHealth(
  redis: RedisConnection,
  log: Logger,
  { calmMs, clock = systemClock }: OutageTiming,
): () => Promise<boolean> {
  const words = { away: 'Redis refuses writes', back: 'Redis writes again' }
  const refusals = new OutageLog(log, words, { calmMs, clock })
  const look = async (): Promise<boolean> => {
    try {
      await within(HEALTH_TIMEOUT_MS, redis.set(keys.health, 1, 'PX', HEALTH_KEPT_MS), clock)
      refusals.ended()
      return true
    } catch (error) {
      if (isRefusal(error)) refusals.began({ reason: errorMessage(error) })
      return false
    } finally {
      clock.after(HEALTH_MS, () => (looked = null)).unref()
    }
  }
  let looked: Promise<boolean> | null = null
  // A finding says nothing once the connection has broken.
  redis.on('close', () => (looked = null))
  return () => (looked ??= look())
}

/**
 * Listens to what the scripts publish, on a connection of its own. What is published while that is broken is lost, and
 * where the user of Redis may not subscribe there is nothing to hear: every process looks at the state in turn.
 */
function listenToHints(connect: Connect, hints: StateHints, log: Logger): RedisConnection {
  const connection = connect('larkway-hints')
  connection.on('ready', () => {
    connection.subscribe(CHANNEL).catch((error: unknown) => {
      log.debug({ reason: errorMessage(error) }, 'no hints of jobs and settings come from Redis')
    })
  })
  connection.on('message', (_channel: string, message: string) => {
    const [hint, part, id] = HINT.exec(message) ?? []
    if (hint === 'settings') hints.settings()
    else if (id !== undefined) hints.changed(id)
    else if (part !== undefined && Number(part) < PARTITIONS) hints.queued(Number(part))
  })
  return connection
}

/**
 * Logs one line for each setting with which the servers may lose what was acknowledged. Where they do not let us read
 * their settings it says nothing. Never rejects.
 */
async function warnOfLosses(redis: RedisConnection, log: Logger): Promise<void> {
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
    const syncs = await settingsOf(logging, 'appendfsync')
    const late = syncs.find((value) => value !== undefined && value !== 'always')
    if (late !== undefined)
      log.warn(
        { appendfsync: late },
        'Redis acknowledges before it has written to the disk, and may lose accepted jobs: set appendfsync always',
      )
    const cutting = logging.filter((server) => cutsTooLate(reports[servers.indexOf(server)] ?? ''))
    if ((await settingsOf(cutting, 'aof-load-truncated')).includes('yes'))
      log.warn(
        { aof_load_truncated: 'yes' },
        'Redis may bring back half of a change that it was killed in: set aof-load-truncated no and run ' +
          'redis-check-aof --fix before each start, or use Valkey 9.1.2 or newer',
      )
  } catch (error) {
    log.debug({ reason: errorMessage(error) }, 'the settings of Redis cannot be read')
  }
}

/** The value of a setting at each of them; undefined: it has none of that name. */
function settingsOf(servers: ReturnType<typeof primariesOf>, name: string): Promise<(string | undefined)[]> {
  return Promise.all(
    servers.map(async (server) => {
      const reply: unknown = await server.config('GET', name)
      return Array.isArray(reply) && typeof reply[1] === 'string' ? reply[1] : undefined
    }),
  )
}

/**
 * Whether a server that finds the end of its append-only file torn within a transaction drops it from memory, but
 * leaves its first commands in the file, where the next start takes them. Redis does (tried up to 7.0.15, read up to
 * 8.0.6); Valkey does not since 9.1.2 (valkey-io/valkey#4342).
 *
 * @param report what INFO answered
 */
function cutsTooLate(report: string): boolean {
  const [, major, minor, patch] = /^valkey_version:(\d+)\.(\d+)\.(\d+)/m.exec(report) ?? []
  return Number(major ?? 0) * 1e6 + Number(minor ?? 0) * 1e3 + Number(patch ?? 0) < 9_001_002
}
