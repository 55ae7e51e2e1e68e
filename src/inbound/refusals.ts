import { GatewayError } from '../errors.ts'

/** A 400 that names the request field at fault, or none when the body as a whole is. */
export function invalid(message: string, param?: string): GatewayError {
  return new GatewayError('INVALID_REQUEST', message, param === undefined ? {} : { param })
}

/** @param receivedBytes audio bytes counted when the limit was crossed, after decoding */
export function audioTooLarge(limitBytes: number, receivedBytes: number): GatewayError {
  return new GatewayError('AUDIO_TOO_LARGE', `audio is over max_audio_bytes (${limitBytes} bytes)`, {
    param: 'audio',
    details: { limit: 'max_audio_bytes', limit_bytes: limitBytes, received_bytes: receivedBytes },
  })
}

/**
 * @param receivedBytes raw bytes that had arrived
 * @param declaredBytes Content-Length, where that alone was over the limit
 */
export function requestTooLarge(
  limitBytes: number,
  receivedBytes: number,
  declaredBytes?: number,
): GatewayError {
  return new GatewayError(
    'REQUEST_TOO_LARGE',
    `the body is over max_request_body_bytes (${limitBytes} bytes)`,
    {
      details: {
        limit: 'max_request_body_bytes',
        limit_bytes: limitBytes,
        received_bytes: receivedBytes,
        ...(declaredBytes === undefined ? {} : { declared_bytes: declaredBytes }),
      },
    },
  )
}
