import { getServers, Resolver } from 'node:dns/promises'

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
 * @param options.servers name servers as `address` or `address:port`; those of the system when absent
 * @param options.timeoutMs for both families together
 */
export function createResolver(
  options: { servers?: readonly string[]; timeoutMs?: number } = {},
): ResolveHost {
  const { servers = getServers(), timeoutMs = RESOLVE_MS } = options
  return async (host, signal) => {
    signal.throwIfAborted()
    // One for each lookup: it is what can be cancelled, and its cache would outlive what the records say.
    // A name server that is silent leaves time for the next.
    const resolver = new Resolver({ timeout: Math.ceil(timeoutMs / Math.max(1, servers.length)), tries: 1 })
    resolver.setServers(servers)
    const cancel = () => resolver.cancel()
    const timer = setTimeout(cancel, timeoutMs)
    signal.addEventListener('abort', cancel, { once: true })
    try {
      const [four, six] = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)])
      signal.throwIfAborted()
      if (four.status === 'rejected' && six.status === 'rejected') throw four.reason
      return inTurns(
        four.status === 'fulfilled' ? four.value : [],
        six.status === 'fulfilled' ? six.value : [],
      )
    } finally {
      clearTimeout(timer)
      signal.removeEventListener('abort', cancel)
    }
  }
}

function inTurns(four: readonly string[], six: readonly string[]): string[] {
  const turns: string[] = []
  for (let index = 0; index < Math.max(four.length, six.length); index++) {
    for (const family of [four, six]) {
      const address = family[index]
      if (address !== undefined) turns.push(address)
    }
  }
  return turns
}
