import { isIP } from 'node:net'
import { type Dial, dialAddress } from './connect-address.ts'
import { isPublicAddress } from './public-address.ts'
import { createResolver, type ResolveHost } from './resolve-host.ts'

/** Addresses of a host that a connection is tried to. */
const ADDRESSES_TRIED_MAX = 3

/** What replaces what reaches into the network; absent, it is the real one. */
export interface WayParts {
  readonly resolve?: ResolveHost
  readonly dial?: Dial
  /** Certificates to trust instead of the system's, PEM. */
  readonly ca?: string
}

/** The way to hosts that others name. */
export interface Way {
  readonly resolve: ResolveHost
  readonly dial: Dial
  readonly verifyPeer: boolean
  readonly ca: string | undefined
}

export function wayOf({ resolve = createResolver(), dial, ca }: WayParts): Way {
  // A dial of the caller's own may lead wherever it likes.
  return { resolve, dial: dial ?? dialAddress, verifyPeer: dial === undefined, ca }
}

/** A host is not connected to. */
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
  { resolve }: Way,
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
