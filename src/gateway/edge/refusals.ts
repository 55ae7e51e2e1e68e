import { GatewayError } from '../../contracts/errors.ts'

/** A 400 that names the request field at fault, or none when the body as a whole is. */
export function invalid(message: string, param?: string): GatewayError {
  return new GatewayError('INVALID_REQUEST', message, param === undefined ? {} : { param })
}

/**
 * A 400 for one field, in the one style that all of them have: "`timestamps` must be one of `word`, `segment`, `both`".
 *
 * @param what follows the name: a requirement of the value, or its fault
 */
export function invalidField(param: string, what: string): GatewayError {
  return invalid(`\`${param}\` ${what}`, param)
}

/** Requirements of field values for `invalidField`, the same for forms and for schemas. */
export const MUST = {
  beOneOf: (values: readonly unknown[]) => {
    const quoted = values.map((value) => `\`${String(value)}\``).join(', ')
    return `must be ${values.length > 1 ? 'one of ' : ''}${quoted}`
  },
  beLeftOut: (why: string) => `must be left out; ${why}`,
  haveCharacters: (most: number | undefined) => `must have at most ${most} characters`,
  haveItems: (most: number | undefined) => `must have at most ${most} items`,
  beAtLeast: (least: number) => `must be at least ${least}`,
  beGreaterThan: (bound: number) => `must be greater than ${bound}`,
  beAtMost: (most: number) => `must be at most ${most}`,
  beGiven: 'must be given',
  notBeEmpty: 'must not be empty',
} as const

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
