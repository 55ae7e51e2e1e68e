import { ERRORS, GatewayError } from '../errors.ts'

/** The store failed or did not answer in time. An error that is one of ours already stays as it is. */
export function unavailable(cause: unknown): GatewayError {
  if (cause instanceof GatewayError) return cause
  return new GatewayError('DEPENDENCY_UNAVAILABLE', ERRORS.DEPENDENCY_UNAVAILABLE.message, { cause })
}

/** What a call that failed with `error` throws: the signal's reason when it was aborted, else `unavailable`. */
export function failureOf(error: unknown, signal: AbortSignal): unknown {
  return signal.aborted ? signal.reason : unavailable(error)
}

/**
 * Neither memory nor an upload slot was to be had in time.
 *
 * @param retryAfterMs when the caller may come back; absent: after the usual time
 */
export function overloaded(why: string, retryAfterMs?: number): GatewayError {
  return new GatewayError('OVERLOADED', ERRORS.OVERLOADED.message, {
    cause: new Error(why),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  })
}

/** Base64 text was checked when it arrived, so this is a fault of the process or of the store. */
export function notBase64(): Error {
  return new Error('stored text is no base64, though it was when it arrived')
}
