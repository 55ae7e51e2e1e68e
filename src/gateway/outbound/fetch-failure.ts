import { GatewayError } from '../../contracts/errors.ts'
import type { UrlRejection } from '../../contracts/remote-audio.ts'

const PARAM = 'audio.url'

const REJECTIONS: Record<UrlRejection, string> = {
  scheme: 'audio.url has to begin with https://',
  host_not_allowed: 'audio.url names a host that is not on the list of allowed domains',
  address_not_public: 'the host of audio.url has an address that is not public',
  unresolvable: 'the host of audio.url has no address in the DNS',
  too_many_redirects: 'the host of audio.url redirects too often',
  redirect_rejected: 'the host of audio.url redirects to where audio is not fetched from',
  no_content_length: 'the host of audio.url does not say how long the audio is (Content-Length)',
  unsupported_content_type: 'what audio.url leads to is no audio by its Content-Type, or is compressed',
  credentials_in_url: 'audio.url may not hold a user name or password',
  port_not_allowed: 'audio.url may name no port but 443',
  status: 'the host of audio.url refuses',
}

/** The audio is not fetched, and another try with the same URL will hardly change that. */
export function rejected(
  reason: UrlRejection,
  { status, cause }: { readonly status?: number; readonly cause?: unknown } = {},
): GatewayError {
  const message = status === undefined ? REJECTIONS[reason] : `${REJECTIONS[reason]} (status ${status})`
  const details = status === undefined ? { reason } : { reason, status }
  return new GatewayError('AUDIO_URL_REJECTED', message, { param: PARAM, details, cause })
}

/**
 * The host failed; it may do better another time.
 *
 * @param what it did, for the caller: without an address, and without a word that the host sent
 * @param cause what really happened; for the log only
 */
export function fetchFailed(what: string, cause?: unknown, details = {}): GatewayError {
  const message = `the host of audio.url ${what}`
  return new GatewayError('AUDIO_URL_FETCH_FAILED', message, { param: PARAM, details, cause })
}

/** The audio is longer than it may be, by the length that the host declared. */
export function tooLarge(limitBytes: number, declaredBytes: number): GatewayError {
  const details = { limit: 'max_audio_url_bytes', limit_bytes: limitBytes, received_bytes: declaredBytes }
  const message = `audio is over ${details.limit} (${limitBytes} bytes)`
  return new GatewayError('AUDIO_TOO_LARGE', message, { param: PARAM, details })
}
