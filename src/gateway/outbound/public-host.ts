import { Resolver } from 'node:dns/promises'
import { isIP } from 'node:net'
import { type Clock, systemClock, timed } from '../../contracts/time.ts'
import { type Dial, dialAddress } from './connect-address.ts'
import type { EgressProxy } from './egress-proxy.ts'
import { isPublicAddress } from './public-address.ts'

/** Addresses of a host that a connection is tried to. */
const ADDRESSES_TRIED_MAX = 3

/** Access to hosts that callers name. */
export interface HostAccess {
  readonly resolve: ResolveHost
  readonly dial: Dial
  readonly verifyPeer: boolean
  readonly egress: EgressProxy | undefined
  /** Certificates to trust instead of the system's, PEM. */
  readonly ca: string | undefined
  readonly clock: Clock
}

/** Replacements for the parts that reach into the network; absent ones are the real ones. */
export type HostAccessOptions = Partial<Omit<HostAccess, 'verifyPeer'>>

export function hostAccess({ ca, clock = systemClock, ...own }: HostAccessOptions): HostAccess {
  const { resolve = createResolver({ clock }), dial = dialAddress, egress } = own
  // A dial of the caller's own may lead wherever it likes.
  return { resolve, dial, verifyPeer: own.dial === undefined, egress, ca, clock }
}

export class HostRefused extends Error {
  override readonly name = 'HostRefused'
  readonly reason: 'unresolvable' | 'address_not_public'

  constructor(reason: HostRefused['reason'], message: string, options?: ErrorOptions) {
    super(message, options)
    this.reason = reason
  }
}

/**
 * The addresses to dial for a host, in that order. It is resolved once, and refused unless all that it has is public:
 * one that is not spoils the rest, since its zone is not sound. Whoever dials these very addresses gives a second
 * answer of the DNS no say.
 *
 * @param host a name, or an IP address without brackets, which has to be public, too
 * @throws HostRefused; the signal's reason when aborted
 */
export async function publicAddresses(
  { resolve }: HostAccess,
  host: string,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const addresses = isIP(host) === 0 ? await resolved(resolve, host, signal) : [host]
  if (addresses.length === 0) throw new HostRefused('unresolvable', `${host} has no address`)
  const banned = addresses.find((address) => !isPublicAddress(address))
  if (banned !== undefined) throw new HostRefused('address_not_public', `${host} has the address ${banned}`)
  return addresses.slice(0, ADDRESSES_TRIED_MAX)
}

async function resolved(resolve: ResolveHost, host: string, signal: AbortSignal): Promise<readonly string[]> {
  try {
    return await resolve(host, signal)
  } catch (cause) {
    signal.throwIfAborted()
    throw new HostRefused('unresolvable', `${host} cannot be resolved`, { cause })
  }
}

/** Longest wait for the name servers. */
const RESOLVE_MS = 3_000

/**
 * Addresses of a host, IPv4 and IPv6 in turns so that the first few are of both; empty when there are none. Rejects, or
 * answers with what is known, when the signal aborts.
 */
export type ResolveHost = (host: string, signal: AbortSignal) => Promise<readonly string[]>

/**
 * Asks the DNS, and nothing but the DNS: what the system's own lookup would add, such as /etc/hosts, search domains and
 * mDNS, names hosts of this network. A family that has no answer or none in time is left out, whatever the reason;
 * every address that is used is checked, so that an answer that was lost can open nothing.
 *
 * @param options.servers name servers as `address` or `address:port`; absent: those that the system has at the time
 * @param options.timeoutMs for both families together
 */
export function createResolver(
  options: { servers?: readonly string[]; timeoutMs?: number; clock?: Clock } = {},
): ResolveHost {
  return async (host, signal) => {
    const { servers = new Resolver().getServers(), timeoutMs = RESOLVE_MS, clock = systemClock } = options
    // One for each lookup: it is what can be cancelled, and its cache would outlive what the records say.
    // A name server that is silent leaves time for the next. Node looks for what is overdue once a second, or as
    // often as a time-out is long: one of a second or less may take twice as long.
    const each = timeoutMs / Math.max(1, servers.length)
    const timeout = Math.ceil(servers.length > 2 ? each / 2 : each)
    const resolver = new Resolver({ timeout, tries: 1 })
    resolver.setServers(servers)
    const ask = async (ended: AbortSignal) => {
      ended.addEventListener('abort', () => resolver.cancel(), { once: true })
      const [four, six] = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)])
      signal.throwIfAborted()
      if (four.status === 'rejected' && six.status === 'rejected') throw four.reason
      return mixedAddresses(
        four.status === 'fulfilled' ? four.value : [],
        six.status === 'fulfilled' ? six.value : [],
      )
    }
    return timed(timeoutMs, signal, ask, clock)
  }
}

function mixedAddresses(four: readonly string[], six: readonly string[]): string[] {
  const pairs = four.flatMap((address, index) => [address, ...six.slice(index, index + 1)])
  return [...pairs, ...six.slice(four.length)]
}
