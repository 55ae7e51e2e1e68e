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

export interface Host {
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
  const path = rest.split('/').slice(1).map(decode)
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
  return { username: decode(text.slice(0, colon)) || null, password: decode(text.slice(colon + 1)) }
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

function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw new Error('REDIS_URL has a part that is not percent-encoded as it should be')
  }
}
