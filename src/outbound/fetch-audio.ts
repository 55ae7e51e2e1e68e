import type { TLSSocket } from 'node:tls'
import { GatewayError } from '../errors.ts'
import type { FetchAudio, FetchOptions, RemoteBody, UrlRejection } from '../schema/remote-audio.ts'
import { type Answer, askHost, isBadLength, isUnreadable } from './ask-host.ts'
import { connectAddress, type Dial, dialAddress } from './connect-address.ts'
import { fetchFailed, rejected } from './fetch-failure.ts'
import { judgeAnswer, redirectOf } from './judge-answer.ts'
import { isPublicAddress } from './public-address.ts'
import { RemoteChunks } from './remote-chunks.ts'
import { type AllowedUrl, judgeRedirect, judgeUrl } from './remote-url.ts'
import { createResolver, type ResolveHost } from './resolve-host.ts'
import { TimeOver, timed } from './timed.ts'

const HTTPS_PORT = 443
const REDIRECTS_MAX = 3

/** Addresses of a host that a connection is tried to. */
const ADDRESSES_TRIED_MAX = 3

export interface FetchTiming {
  /** For a connection, all addresses and TLS included. */
  readonly connectMs: number
  /** From the request to the end of the head of its answer. */
  readonly headMs: number
  /** For the body: so long, and a second for every so many bytes. */
  readonly bodyMs: number
  readonly bodyBytesPerSecond: number
}

const TIMING: FetchTiming = {
  connectMs: 5_000,
  headMs: 10_000,
  bodyMs: 10_000,
  bodyBytesPerSecond: 64 * 1024,
}

/** Each part but `timing` replaces what reaches into the network; absent, it is the real one. */
export interface FetchParts {
  readonly resolve?: ResolveHost
  readonly dial?: Dial
  /** Certificates to trust instead of the system's, PEM. */
  readonly ca?: string
  readonly timing?: Partial<FetchTiming>
}

/** The way to a host, as the parts of the fetcher make it. */
interface Way {
  readonly resolve: ResolveHost
  readonly dial: Dial
  readonly verifyPeer: boolean
  readonly ca: string | undefined
  readonly timing: FetchTiming
}

/**
 * Fetches audio from hosts that callers name, and keeps them from reaching anything else through this process. Each hop
 * is judged as a text, resolved once, and refused unless all of its addresses are public; it is those addresses that
 * are dialled, so that a second answer of the DNS has no say. Redirects are hops of their own.
 */
export function createAudioFetcher(parts: FetchParts): FetchAudio {
  const way: Way = {
    resolve: parts.resolve ?? createResolver(),
    dial: parts.dial ?? dialAddress,
    // A dial of the caller's own may lead wherever it likes.
    verifyPeer: parts.dial === undefined,
    ca: parts.ca,
    timing: { ...TIMING, ...parts.timing },
  }
  return async (url, options) => {
    try {
      return await fetchAudio(way, url, options)
    } catch (cause) {
      throw options.signal.aborted ? options.signal.reason : toFetchError(cause)
    }
  }
}

async function fetchAudio(way: Way, text: string, options: FetchOptions): Promise<RemoteBody> {
  const { domains, signal } = options
  signal.throwIfAborted()
  let target = allowed(judgeUrl(text, domains))
  for (let redirects = 0; ; redirects++) {
    const addresses = await publicAddresses(way, target.host, redirects > 0, signal)
    const answer = await ask(way, target, addresses, signal)
    const location = redirectOf(answer.message)
    if (location === null) return bodyOf(way, answer, options)
    answer.leave()
    if (redirects === REDIRECTS_MAX) throw rejected('too_many_redirects')
    target = allowed(judgeRedirect(location, target.url, domains))
  }
}

function allowed(judged: AllowedUrl | { readonly rejected: UrlRejection }): AllowedUrl {
  if ('rejected' in judged) throw rejected(judged.rejected)
  return judged
}

/** All that the host has, in the order to be dialled. One that is not public spoils the rest: its zone is not sound. */
async function publicAddresses(
  way: Way,
  host: string,
  redirected: boolean,
  signal: AbortSignal,
): Promise<readonly string[]> {
  let addresses: readonly string[]
  try {
    addresses = await way.resolve(host, signal)
  } catch (cause) {
    signal.throwIfAborted()
    throw rejected(redirected ? 'redirect_rejected' : 'unresolvable', { cause })
  }
  if (addresses.length === 0) throw rejected(redirected ? 'redirect_rejected' : 'unresolvable')
  const banned = addresses.find((address) => !isPublicAddress(address))
  if (banned !== undefined) {
    const cause = new Error(`${host} has the address ${banned}`)
    throw rejected(redirected ? 'redirect_rejected' : 'address_not_public', { cause })
  }
  return addresses.slice(0, ADDRESSES_TRIED_MAX)
}

async function ask(
  { dial, verifyPeer, ca, timing }: Way,
  { url, host }: AllowedUrl,
  addresses: readonly string[],
  signal: AbortSignal,
): Promise<Answer> {
  const limitMs = timing.connectMs
  let socket: TLSSocket
  try {
    socket = await timed(limitMs, signal, (ended) =>
      connectAddress({ addresses, port: HTTPS_PORT, host }, { dial, verifyPeer, ca, limitMs, signal: ended }),
    )
  } catch (cause) {
    throw fetchFailed('cannot be connected to', cause)
  }
  try {
    return await timed(timing.headMs, signal, (ended) => askHost(socket, url, ended))
  } catch (cause) {
    socket.destroy()
    throw cause
  }
}

function bodyOf({ timing }: Way, answer: Answer, { maxBytes, signal }: FetchOptions): RemoteBody {
  try {
    const { length, mediaType } = judgeAnswer(answer.message, maxBytes)
    const limitMs = timing.bodyMs + (1000 * length) / timing.bodyBytesPerSecond
    return { length, mediaType, chunks: new RemoteChunks(answer, { length, limitMs, signal }) }
  } catch (cause) {
    answer.leave()
    throw cause
  }
}

function toFetchError(cause: unknown): GatewayError {
  if (cause instanceof GatewayError) return cause
  if (isBadLength(cause)) return rejected('no_content_length', { cause })
  if (cause instanceof TimeOver) return fetchFailed('did not answer in time', cause)
  return fetchFailed(isUnreadable(cause) ? 'sent an answer that cannot be read' : 'broke off', cause)
}
