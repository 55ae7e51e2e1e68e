import { Cluster, Redis, type RedisOptions, ReplyError } from 'ioredis'
import { errorMessage, type Logger } from '../../../contracts/log.ts'
import { type Clock, systemClock } from '../../../contracts/time.ts'
import { OutageLog, type OutageTiming } from './outage-log.ts'

/** One server, the primary that Sentinels name, or a cluster: scripts and commands are sent to it alike. */
export type RedisConnection = Redis | Cluster

/** Longest wait for a recovered Redis: ioredis would wait 10 s for one that loads, if that estimates so. */
const RECONNECT_MS = 500
/** A server that refuses writes may have another's place by now: how often a connection looks for that one at most. */
const RELOCATE_MS = 1_000
/** A connection that owes an answer for so long is made anew: TCP would notice a silent cut only after minutes. */
const SILENT_MS = 2_000
/** How often one command may be sent on to another node of a cluster, by nodes that did not execute it. */
const REDIRECTIONS = 5

/** Makes a connection; `name` is shown by CLIENT LIST. */
export type Connect = (name: string) => RedisConnection

/**
 * Makes connections that never send a command twice: what was on its way when the connection broke fails, and so does
 * everything until it is back. They connect by themselves, also when Redis comes up later. Every connection of the
 * process is made here: one without a listener for its errors would print their stacks past the log.
 *
 * An outage is one line of the log when the first of the connections breaks, and one when the last of them is back for
 * good; the errors in between are logged at debug level.
 *
 * @param url as `parseRedisAddress` reads it; throws as that does
 */
export function redisConnector(url: string, log: Logger, timing: OutageTiming = {}): Connect {
  const address = parseRedisAddress(url)
  const { clock = systemClock } = timing
  const outage = new Outage(log, timing)
  return (name) => {
    const connection =
      address.mode === 'cluster' ? connectCluster(address, name) : connectOne(address, name, clock)
    outage.watch(connection, name)
    return connection
  }
}

/** The servers that take writes. */
export function primariesOf(redis: RedisConnection): readonly Redis[] {
  return redis instanceof Cluster ? redis.nodes('master') : [redis]
}

/** Redis answered with an error, such as that its memory is full. */
export const isRefusal = (error: unknown): boolean => error instanceof ReplyError

/** Resolves when each server that takes writes has a connection: until then a cluster refuses what is for others. */
export async function connected(redis: RedisConnection): Promise<void> {
  await readyOf(redis)
  await Promise.all(primariesOf(redis).map(readyOf))
}

function readyOf(redis: RedisConnection): Promise<void> {
  if (redis.status === 'ready') return Promise.resolve()
  return new Promise((resolve) => redis.once('ready', resolve))
}

/** Whether Redis is away, from all connections of the process together. */
class Outage {
  readonly #log: Logger
  readonly #lines: OutageLog
  /** Connections that are not ready, from their first error or close on. */
  readonly #broken = new Set<RedisConnection>()

  constructor(log: Logger, timing: OutageTiming) {
    this.#log = log
    this.#lines = new OutageLog(log, { away: 'Redis is away', back: 'Redis is back' }, timing)
  }

  watch(connection: RedisConnection, name: string): void {
    let reason = 'the connection was closed'
    const note = (error: Error) => {
      reason = errorMessage(error)
      this.#log.debug({ connection: name, reason }, 'redis connection')
      if (connection.status !== 'ready') this.#breaks(connection, name, reason)
    }
    connection.on('error', note)
    connection.on('node error', note)
    // A cluster is closed once for each of its nodes, and its status is known when all that listen have been told.
    const closed = () => queueMicrotask(() => this.#breaks(connection, name, reason))
    connection.on('close', closed)
    connection.on('ready', () => this.#heals(connection))
    // Closed by us.
    connection.on('end', () => {
      connection.off('close', closed)
      this.#broken.delete(connection)
    })
  }

  #breaks(connection: RedisConnection, name: string, reason: string): void {
    if (connection.status === 'end') return
    this.#broken.add(connection)
    this.#lines.began({ connection: name, reason })
  }

  #heals(connection: RedisConnection): void {
    this.#broken.delete(connection)
    if (this.#broken.size === 0) this.#lines.ended()
  }
}

const retryStrategy = (attempt: number) => Math.min(RECONNECT_MS, 25 * 2 ** Math.min(attempt, 10))

/** Options of every connection to a server, however it was found. */
function nodeOptions({ tls, username, password }: RedisAddress, name: string) {
  return {
    connectionName: name,
    autoResendUnfulfilledCommands: false,
    // Listeners subscribe again by themselves: a subscription that ioredis repeats and Redis refuses fails unheard.
    autoResubscribe: false,
    maxRetriesPerRequest: 0,
    maxLoadingRetryTime: RECONNECT_MS,
    connectTimeout: SILENT_MS,
    socketTimeout: SILENT_MS,
    ...(tls ? { tls: {} } : {}),
    ...(username === null ? {} : { username }),
    ...(password === null ? {} : { password }),
  } satisfies RedisOptions
}

function connectOne(address: Exclude<RedisAddress, { mode: 'cluster' }>, name: string, clock: Clock): Redis {
  let relocatedMs = Number.NEGATIVE_INFINITY
  const options = {
    ...nodeOptions(address, name),
    db: address.database,
    enableAutoPipelining: true,
    enableOfflineQueue: false,
    // A primary that became a replica refuses writes; the address may lead to the new one by now.
    reconnectOnError: ({ message }) => {
      const nowMs = clock.now()
      if (!message.startsWith('READONLY') || nowMs < relocatedMs + RELOCATE_MS) return false
      relocatedMs = nowMs
      return true
    },
    retryStrategy,
  } satisfies RedisOptions
  if (address.mode === 'single') return new Redis({ ...options, ...address.host })
  const { hosts, master, password, tls } = address
  return new Redis({
    ...options,
    sentinels: [...hosts],
    name: master,
    // A Sentinel rarely knows the users of its servers. Its default user takes any password where it needs none.
    ...(password === null ? {} : { sentinelPassword: password }),
    ...(tls ? { enableTLSForSentinelMode: true, sentinelTLS: {} } : {}),
    sentinelCommandTimeout: SILENT_MS,
    sentinelRetryStrategy: retryStrategy,
  })
}

/**
 * ioredis sends a command again after these answers alone: MOVED, ASK and TRYAGAIN, with which a node says that it has
 * not executed it. A broken connection (`retryDelayOnFailover`) and a cluster that is down (`retryDelayOnClusterDown`)
 * fail at once. Commands are not pipelined: a pipeline is one unit to ioredis, and where only some of its commands were
 * redirected it hands the redirections out as errors. Who serves which keys is asked anew after a redirection, not by
 * the clock: `slotsRefreshInterval` has a timer that outlives the connection when it is closed at a wrong moment.
 */
function connectCluster(address: Extract<RedisAddress, { mode: 'cluster' }>, name: string): Cluster {
  const cluster = new Cluster([...address.hosts], {
    redisOptions: nodeOptions(address, name),
    enableOfflineQueue: false,
    enableAutoPipelining: false,
    maxRedirections: REDIRECTIONS,
    retryDelayOnFailover: 0,
    retryDelayOnClusterDown: 0,
    slotsRefreshTimeout: SILENT_MS,
    clusterRetryStrategy: retryStrategy,
    // The sockets look names up themselves: a certificate is checked against a name, not against its address.
    dnsLookup: (host, callback) => callback(null, host),
  })
  // By itself ioredis connects to a node with the first command for it, and refuses what comes meanwhile. A redirected
  // command comes in the turn in which its node is found, and connects it.
  const connectNode = (node: Redis) => {
    if (cluster.status === 'ready' && node.status === 'wait' && !node.options.readOnly)
      node.connect().catch(() => {})
  }
  cluster.on('+node', (node: Redis) => setImmediate(connectNode, node))
  cluster.on('ready', () => cluster.nodes('master').forEach(connectNode))
  return cluster
}

/** Where a Redis is, and how it is reached. */
export type RedisAddress = Credentials & {
  readonly tls: boolean
} & (
    | { readonly mode: 'single'; readonly host: Host; readonly database: number }
    | {
        readonly mode: 'sentinel'
        readonly hosts: readonly Host[]
        readonly master: string
        readonly database: number
      }
    | { readonly mode: 'cluster'; readonly hosts: readonly Host[] }
  )

interface Credentials {
  /** Null: the default user. */
  readonly username: string | null
  readonly password: string | null
}

interface Host {
  readonly host: string
  readonly port: number
}

const REDIS_PORT = 6379
const SENTINEL_PORT = 26379

const ADDRESS = /^redis(s?)(\+sentinel|\+cluster)?:\/\/(?:([^@/?#]*)@)?([^@/?#]+)(\/[^?#]*)?$/
const HOST = /^(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::(\d{1,5}))?$/

/**
 * Reads one of
 *
 *     redis://[user:password@]host[:port][/database]
 *     redis+sentinel://[user:password@]host[:port],…/master[/database]
 *     redis+cluster://[user:password@]host[:port],…
 *
 * or the same with `rediss`, for TLS. The user may be empty; user and password are percent-encoded.
 *
 * @throws Error that says what is wrong and never holds a part of the address, which has a password in it
 */
export function parseRedisAddress(address: string): RedisAddress {
  const match = ADDRESS.exec(address)
  if (!match) throw new Error('REDIS_URL is not the address of a Redis')
  const [, secure, suffix, user, list = '', rest = ''] = match
  const common = { tls: secure === 's', ...parseCredentials(user) }
  const path = rest.split('/').slice(1).map(decodedText)
  if (suffix === '+cluster') {
    if (rest !== '' && rest !== '/') throw new Error('REDIS_URL names a database: a cluster has only one')
    return { mode: 'cluster', hosts: parseHosts(list, REDIS_PORT), ...common }
  }
  if (suffix === '+sentinel') {
    const [master = '', database, ...tail] = path
    if (master === '' || tail.length > 0) throw new Error('REDIS_URL needs /master or /master/database')
    return {
      mode: 'sentinel',
      hosts: parseHosts(list, SENTINEL_PORT),
      master,
      database: parseDatabase(database),
      ...common,
    }
  }
  const [host, ...others] = parseHosts(list, REDIS_PORT)
  if (host === undefined || others.length > 0 || path.length > 1)
    throw new Error('REDIS_URL names more than a host and a database')
  return { mode: 'single', host, database: parseDatabase(path[0]), ...common }
}

function parseCredentials(text: string | undefined): Credentials {
  if (text === undefined) return { username: null, password: null }
  const colon = text.indexOf(':')
  if (colon < 0 || colon === text.length - 1) throw new Error('REDIS_URL has a user without a password')
  return { username: decodedText(text.slice(0, colon)) || null, password: decodedText(text.slice(colon + 1)) }
}

function parseHosts(list: string, defaultPort: number): Host[] {
  return list.split(',').map((text) => {
    const [, ipv6, name, digits] = HOST.exec(text) ?? []
    const host = ipv6 ?? name
    const port = digits === undefined ? defaultPort : Number(digits)
    if (host === undefined || port < 1 || port > 65_535)
      throw new Error('REDIS_URL has a host that is not one')
    return { host, port }
  })
}

function parseDatabase(text = ''): number {
  if (!/^\d{0,4}$/.test(text)) throw new Error('REDIS_URL has a database that is not a small number')
  return Number(text)
}

function decodedText(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw new Error('REDIS_URL has a part that is not percent-encoded as it should be')
  }
}
