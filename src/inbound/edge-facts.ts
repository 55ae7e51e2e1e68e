import type { Exchange } from './exchange.ts'

/** What the line of any request in the log says: all that is known of it without its headers and its body. */
export function edgeFacts(exchange: Exchange) {
  const { requestId, method, pattern, status, elapsedMs, firstByteMs, receivedBytes, sentBytes } = exchange
  return {
    request_id: requestId,
    method,
    path: pattern ?? undefined,
    status,
    milliseconds: Math.round(elapsedMs),
    first_byte_milliseconds: firstByteMs === null ? undefined : Math.round(firstByteMs),
    received_bytes: receivedBytes,
    sent_bytes: sentBytes,
  }
}
