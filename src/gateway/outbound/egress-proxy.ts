import { BlockList, isIP, isIPv6, type Socket } from 'node:net'
import { type Clock, systemClock, timed } from '../../contracts/time.ts'
import { TO_HOST } from './host-lookup.ts'

/** Where a connection leads; a host has no brackets. */
export interface Target {
  readonly host: string
  readonly port: number
}

export function targetOf({ protocol, hostname, port }: URL): Target {
  // The brackets around an IPv6 address are the URL's.
  const host = hostname.startsWith('[') ? hostname.slice(1, -1) : hostname
  return { host, port: Number(port || (/^(?:https|wss):$/.test(protocol) ? 443 : 80)) }
}

/** Options of TLS to a host. A server is named by its name only (RFC 6066, section 3). */
export function secureOptions({ host }: Pick<Target, 'host'>) {
  return { ALPNProtocols: ['http/1.1'], ...(isIP(host) === 0 ? { servername: host } : { host }) }
}

/** Opens connections to other machines through the proxy of a network that lets nothing else out. */
export interface EgressProxy {
  /** Host and port. */
  readonly address: string
  /** False: this target is connected to directly. */
  leadsTo(target: Target): boolean
  /**
   * A connection for TLS, of which the proxy sees the host and the port (CONNECT; RFC 9110, section 9.3.6).
   *
   * @throws TunnelRefused; what the connection to the proxy failed with; the signal's reason when aborted
   */
  open(target: Target, limitMs: number, signal?: AbortSignal): Promise<Socket>
}

/** The proxy does not connect to the target. */
class TunnelRefused extends Error {
  override readonly name = 'TunnelRefused'
  readonly code: string

  constructor(status: number) {
    super(`the proxy answered with status ${status}`)
    this.code = `PROXY_${status}`
  }
}

/** The variables by which programs are told of a proxy. */
export interface ProxySettings {
  /** URL of http or https, with a name and a password where the proxy asks for them; none: there is no proxy. */
  readonly HTTPS_PROXY?: string | undefined
  /**
   * Hosts that are connected to directly, besides this machine, separated by commas: names, each with the names under
   * it, addresses and networks (`10.0.0.0/8`), a name or an address with a port if only that is meant; `*` for all.
   */
  readonly NO_PROXY?: string | undefined
}

/** @throws Error that names the variable that cannot be read */
export function createEgressProxy(
  { HTTPS_PROXY, NO_PROXY = '' }: ProxySettings,
  clock: Clock = systemClock,
): EgressProxy | undefined {
  if (HTTPS_PROXY === undefined) return
  const proxy = proxyAt(HTTPS_PROXY)
  const exempt = `${LOCAL},${NO_PROXY}`
    .toLowerCase()
    .split(/[\s,]+/)
    .filter(Boolean)
    .map(exemption)
  return {
    address: `${proxy.to.host}:${proxy.to.port}`,
    leadsTo: (target) => !exempt.some((covers) => covers(target)),
    open: (target, limitMs, signal = new AbortController().signal) =>
      timed(limitMs, signal, (ended) => tunnelled(proxy, target, ended), clock),
  }
}

/** A proxy as options of a request to it, and what it asks for. */
function proxyAt(text: string) {
  try {
    const url = new URL(/^https?:\/\/[^/?#]+\/?$/.exec(text)?.[0] ?? '')
    const name = Buffer.from(decodeURIComponent(`${url.username}:${url.password}`))
    const headers = name.length === 1 ? {} : { 'proxy-authorization': `Basic ${name.toString('base64')}` }
    return { to: { protocol: url.protocol, ...targetOf(url) }, headers }
  } catch {
    throw new Error('HTTPS_PROXY must be a URL such as http://name:password@proxy:3128, without a path')
  }
}

async function tunnelled(
  { to, headers }: ReturnType<typeof proxyAt>,
  { host, port }: Target,
  signal: AbortSignal,
): Promise<Socket> {
  const { request } = to.protocol === 'https:' ? await import('node:https') : await import('node:http')
  const path = `${isIPv6(host) ? `[${host}]` : host}:${port}`
  return new Promise((resolve, reject) => {
    // Node by itself holds the proxy's certificate to the name in the header, which is the target's.
    const servername = isIP(to.host) === 0 ? to.host : ''
    const own = { headers: { host: path, ...headers }, agent: false, servername, signal, ...TO_HOST }
    const asked = request({ ...to, method: 'CONNECT', path, ...own })
    asked.once('connect', ({ statusCode = 0 }, socket) => {
      // It may break before TLS begins on it.
      socket.on('error', () => {})
      if (statusCode >= 200 && statusCode <= 299) return resolve(socket)
      socket.destroy()
      reject(new TunnelRefused(statusCode))
    })
    asked.once('error', (error) => reject(signal.aborted ? signal.reason : error))
    asked.end()
  })
}

const LOCAL = 'localhost,127.0.0.0/8,::1'

const familyOf = (address: string) => (isIPv6(address) ? 'ipv6' : 'ipv4')

function exemption(text: string): (target: Target) => boolean {
  if (text === '*') return () => true
  const [network = '', bits] = text.split('/')
  if (bits !== undefined) {
    const list = new BlockList()
    try {
      list.addSubnet(network, Number(bits), familyOf(network))
    } catch {
      throw new Error(`NO_PROXY has ${text}, which is no network`)
    }
    return ({ host }) => isIP(host) !== 0 && list.check(host, familyOf(host))
  }
  const [, bare = '', port] =
    /^(?:\*?\.)?\[?(.*?)\]?(?::(\d{1,5}))?$/.exec(isIPv6(text) ? `[${text}]` : text) ?? []
  return ({ host, port: itsPort }) =>
    (port === undefined || Number(port) === itsPort) && (host === bare || host.endsWith(`.${bare}`))
}
