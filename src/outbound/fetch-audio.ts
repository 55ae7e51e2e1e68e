import type { TLSSocket } from 'node:tls'
import { GatewayError } from '../errors.ts'
import type { FetchAudio, FetchOptions, RemoteBody, UrlRejection } from '../schema/remote-audio.ts'
import { type Answer, askHost, isBadLength, isUnreadable, type Question } from './ask-host.ts'
import { connectAddress } from './connect-address.ts'
import { fetchFailed, rejected } from './fetch-failure.ts'
import { judgeAnswer, redirectOf } from './judge-answer.ts'
import { HostRefused, publicAddresses, type Way, type WayParts, wayOf } from './public-host.ts'
import { RemoteChunks } from './remote-chunks.ts'
import { type AllowedUrl, judgeRedirect, judgeUrl } from './remote-url.ts'
import { TimeOver, timed } from './timed.ts'

const HTTPS_PORT = 443
const REDIRECTS_MAX = 3

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

export interface FetchParts extends WayParts {
  readonly timing?: Partial<FetchTiming>
}

interface Fetching extends Way {
  readonly timing: FetchTiming
}

/**
 * Fetches audio from hosts that callers name, and keeps them from reaching anything else through this process. Each hop
 * is judged as a text, resolved once, and refused unless all of its addresses are public; it is those addresses that
 * are dialled, so that a second answer of the DNS has no say. Redirects are hops of their own.
 */
export function createAudioFetcher(parts: FetchParts): FetchAudio {
  const way: Fetching = { ...wayOf(parts), timing: { ...TIMING, ...parts.timing } }
  return async (url, options) => {
    try {
      return await fetchAudio(way, url, options)
    } catch (cause) {
      throw options.signal.aborted ? options.signal.reason : toFetchError(cause)
    }
  }
}

async function fetchAudio(way: Fetching, text: string, options: FetchOptions): Promise<RemoteBody> {
  const { domains, signal } = options
  signal.throwIfAborted()
  let target = allowed(judgeUrl(text, domains))
  for (let redirects = 0; ; redirects++) {
    const addresses = await allowedAddresses(way, target.host, redirects > 0, signal)
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

async function allowedAddresses(
  way: Way,
  host: string,
  redirected: boolean,
  signal: AbortSignal,
): Promise<readonly string[]> {
  try {
    return await publicAddresses(way, host, signal)
  } catch (cause) {
    if (!(cause instanceof HostRefused)) throw cause
    throw rejected(redirected ? 'redirect_rejected' : cause.reason, { cause })
  }
}

async function ask(
  { dial, verifyPeer, ca, timing }: Fetching,
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
    return await timed(timing.headMs, signal, (ended) => askHost(socket, questionOf(url), ended))
  } catch (cause) {
    socket.destroy()
    throw cause
  }
}

function questionOf(url: URL): Question {
  return {
    method: 'GET',
    path: url.pathname + url.search,
    headers: {
      host: url.hostname,
      'user-agent': 'Larkway',
      accept: 'audio/*, video/mp4, video/webm, video/mpeg, application/ogg',
      'accept-encoding': 'identity',
      connection: 'close',
    },
    body: null,
  }
}

function bodyOf({ timing }: Fetching, answer: Answer, { maxBytes, signal }: FetchOptions): RemoteBody {
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
