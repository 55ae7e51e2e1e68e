import type { CancelSignal } from '../cancellation.ts'
import type { Exchange } from './exchange.ts'
import { type HeaderValue, parseHeaderValue } from './header-value.ts'
import { requestTooLarge } from './refusals.ts'

/** The Content-Type in parts; null when it is malformed or missing, or when the body is compressed. */
export function contentTypeOf({ headers }: Exchange): HeaderValue | null {
  const encoding = headers['content-encoding']?.trim().toLowerCase() ?? ''
  if (encoding !== '' && encoding !== 'identity') return null
  return parseHeaderValue(headers['content-type'] ?? '')
}

/** @throws GatewayError REQUEST_TOO_LARGE when Content-Length alone is over the limit */
export function refuseDeclared({ contentLength, receivedBytes }: Exchange, maxBytes: number): void {
  if (contentLength !== null && contentLength > maxBytes) {
    throw requestTooLarge(maxBytes, receivedBytes, contentLength)
  }
}

/**
 * Reads a body to its end. The bytes up to the limit are taken before the one that crosses it is refused, so
 * that of two limits the one that the stream crosses first is reported.
 *
 * @param signal ends the reading, with its reason; must abort when the client leaves
 * @param take   called with each chunk, in order; the view is valid during the call. `last` is true exactly
 *               once. What it throws ends the reading.
 * @throws GatewayError REQUEST_TOO_LARGE, the body's own errors, the signal's reason, whatever `take` throws
 */
export function readBody(
  exchange: Exchange,
  maxBytes: number,
  signal: CancelSignal,
  take: (view: Buffer, last: boolean) => void,
): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  let received = 0
  let ended = false

  function end(settle: () => void): void {
    if (ended) return
    ended = true
    signal.removeEventListener('abort', abort)
    // The rest of a refused body must come, to be discarded, and the connection may carry another request.
    if (!exchange.signal.aborted) exchange.body.resume()
    settle()
  }
  function abort(): void {
    end(() => reject(signal.reason))
  }
  function onChunk(chunk: Uint8Array, last: boolean): void {
    if (ended) return
    const view = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)
    const room = maxBytes - received
    received += view.length
    try {
      if (view.length > room) {
        take(view.subarray(0, room), false)
        throw requestTooLarge(maxBytes, received)
      }
      take(view, last)
    } catch (error) {
      end(() => reject(error))
      return
    }
    if (last) end(resolve)
  }

  signal.addEventListener('abort', abort, { once: true })
  if (signal.aborted) abort()
  else exchange.body.consume({ onChunk, onError: (error) => end(() => reject(error)) })
  return promise
}
