import type { IncomingMessage } from 'node:http'
import type { TLSSocket } from 'node:tls'
import { GatewayError } from '../../contracts/errors.ts'
import type { FetchAudio, FetchOptions, RemoteBody, UrlRejection } from '../../contracts/remote-audio.ts'
import { TimeoutError, timed } from '../../contracts/time.ts'
import { type Answer, askHost, isBadLength, isUnreadable, type Question } from './ask-host.ts'
import { connectAddress } from './connect-address.ts'
import { fetchFailed, rejected, tooLarge } from './fetch-failure.ts'
import type { HostAccess, HostAccessOptions } from './public-host.ts'
import { HostRefused, hostAccess, publicAddresses } from './public-host.ts'
import { RemoteChunks } from './remote-chunks.ts'
import { type AllowedUrl, judgeRedirect, judgeUrl } from './remote-url.ts'

const HTTPS_PORT = 443
const REDIRECTS_MAX = 3

const TIMING = {
  /** For a connection, all addresses and TLS included. */
  connectMs: 5_000,
  /** From the request to the end of the head of its answer. */
  headMs: 10_000,
  /** For the body: so long, and a second for every so many bytes. */
  bodyMs: 10_000,
  bodyBytesPerSecond: 64 * 1024,
}
export type FetchTiming = Readonly<typeof TIMING>

export interface FetchDependencies extends HostAccessOptions {
  readonly timing?: Partial<FetchTiming>
}

interface Fetching extends HostAccess {
  readonly timing: FetchTiming
}

/**
 * Fetches audio from hosts that callers name, and keeps them from reaching anything else through this process. Each hop
 * is judged as a text, resolved once, and refused unless all of its addresses are public; it is those addresses that
 * are dialled, so that a second answer of the DNS has no say. Redirects are hops of their own.
 */
export function createAudioFetcher(deps: FetchDependencies): FetchAudio {
  const access: Fetching = { ...hostAccess(deps), timing: { ...TIMING, ...deps.timing } }
  return async (url, options) => {
    try {
      return await fetchAudio(access, url, options)
    } catch (cause) {
      throw options.signal.aborted ? options.signal.reason : toFetchError(cause)
    }
  }
}

async function fetchAudio(access: Fetching, text: string, options: FetchOptions): Promise<RemoteBody> {
  const { domains, signal } = options
  signal.throwIfAborted()
  let target = allowed(judgeUrl(text, domains))
  for (let redirects = 0; ; redirects++) {
    const addresses = await allowedAddresses(access, target.host, redirects > 0, signal)
    const answer = await requestAudio(access, target, addresses, signal)
    const location = redirectOf(answer.message)
    if (location === null) return bodyOf(access, answer, options)
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
  access: HostAccess,
  host: string,
  redirected: boolean,
  signal: AbortSignal,
): Promise<readonly string[]> {
  try {
    return await publicAddresses(access, host, signal)
  } catch (cause) {
    if (!(cause instanceof HostRefused)) throw cause
    throw rejected(redirected ? 'redirect_rejected' : cause.reason, { cause })
  }
}

async function requestAudio(
  access: Fetching,
  { url, host }: AllowedUrl,
  addresses: readonly string[],
  signal: AbortSignal,
): Promise<Answer> {
  const { timing, clock } = access
  const limitMs = timing.connectMs
  let socket: TLSSocket
  try {
    const peer = { addresses, port: HTTPS_PORT, host }
    const connect = (ended: AbortSignal) => connectAddress(peer, { ...access, limitMs, signal: ended })
    socket = await timed(limitMs, signal, connect, clock)
  } catch (cause) {
    throw fetchFailed('cannot be connected to', cause)
  }
  try {
    return await timed(timing.headMs, signal, (ended) => askHost(socket, questionOf(url), ended), clock)
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

function bodyOf({ timing, clock }: Fetching, answer: Answer, { maxBytes, signal }: FetchOptions): RemoteBody {
  try {
    const { length, mediaType } = judgeAnswer(answer.message, maxBytes)
    const limitMs = timing.bodyMs + (1000 * length) / timing.bodyBytesPerSecond
    return { length, mediaType, chunks: new RemoteChunks(answer, { length, limitMs, signal, clock }) }
  } catch (cause) {
    answer.leave()
    throw cause
  }
}

function toFetchError(cause: unknown): GatewayError {
  if (cause instanceof GatewayError) return cause
  if (isBadLength(cause)) return rejected('no_content_length', { cause })
  if (cause instanceof TimeoutError) return fetchFailed('did not answer in time', cause)
  return fetchFailed(isUnreadable(cause) ? 'sent an answer that cannot be read' : 'broke off', cause)
}

const REDIRECTS: ReadonlySet<number | undefined> = new Set([301, 302, 303, 307, 308])

const MEDIA_TYPES = /^(?:audio\/[a-z0-9!#$&^_.+-]+|video\/(?:mp4|webm|mpeg)|application\/ogg)$/

/** The part of an answer that `judgeAnswer` needs: lower-case header names, one value each. */
type Head = Pick<IncomingMessage, 'statusCode' | 'headers'>

/** Target of a redirect, as received; null when the answer is none. */
function redirectOf({ statusCode, headers }: Head): string | null {
  return REDIRECTS.has(statusCode) ? (headers.location ?? null) : null
}

/**
 * Judges the head of an answer that is not a redirect.
 *
 * An empty body is taken for a failure of the host, which may have the audio the next time: what is written there
 * by another program begins as an empty file.
 *
 * @returns the declared length, 1 to `maxBytes`, and the type, in lower case and without parameters
 * @throws GatewayError AUDIO_URL_REJECTED with `details.reason` status, no_content_length or unsupported_content_type;
 *         AUDIO_URL_FETCH_FAILED for any other status but 200; AUDIO_TOO_LARGE
 */
function judgeAnswer({ statusCode = 0, headers }: Head, maxBytes: number) {
  if (statusCode >= 400 && statusCode <= 499) throw rejected('status', { status: statusCode })
  if (statusCode !== 200)
    throw fetchFailed(`answered with status ${statusCode}`, undefined, { status: statusCode })
  const declared = headers['content-length'] ?? ''
  if (headers['transfer-encoding'] !== undefined || !/^\d+$/.test(declared))
    throw rejected('no_content_length')
  const length = Number(declared)
  if (length > maxBytes) throw tooLarge(maxBytes, length)
  if (length === 0) throw fetchFailed('sent no audio')
  const encoding = headers['content-encoding']?.trim().toLowerCase() ?? ''
  if (encoding !== '' && encoding !== 'identity') throw rejected('unsupported_content_type')
  const mediaType = headers['content-type']?.split(';', 1)[0]?.trim().toLowerCase() ?? ''
  if (!MEDIA_TYPES.test(mediaType)) throw rejected('unsupported_content_type')
  return { length, mediaType }
}
