import type { IncomingMessage } from 'node:http'
import { fetchFailed, rejected, tooLarge } from './fetch-failure.ts'

const REDIRECTS: ReadonlySet<number | undefined> = new Set([301, 302, 303, 307, 308])

const MEDIA_TYPES = /^(?:audio\/[a-z0-9!#$&^_.+-]+|video\/(?:mp4|webm|mpeg)|application\/ogg)$/

/** What `judgeAnswer` needs of an answer: names of headers in lower case, one value for each. */
type Head = Pick<IncomingMessage, 'statusCode' | 'headers'>

/** Where an answer redirects to, as received; null when it does not. */
export function redirectOf({ statusCode, headers }: Head): string | null {
  return REDIRECTS.has(statusCode) ? (headers.location ?? null) : null
}

/**
 * Judges the head of an answer that is no redirect.
 *
 * An empty body is taken for a failure of the host, which may have the audio the next time: what is written there
 * by another program begins as an empty file.
 *
 * @returns the declared length, 1 to `maxBytes`, and the type, in lower case and without parameters
 * @throws GatewayError AUDIO_URL_REJECTED with `details.reason` status, no_content_length or unsupported_content_type;
 *         AUDIO_URL_FETCH_FAILED for any other status but 200; AUDIO_TOO_LARGE
 */
export function judgeAnswer(
  { statusCode = 0, headers }: Head,
  maxBytes: number,
): { readonly length: number; readonly mediaType: string } {
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
