import { ERRORS, GatewayError } from '../../contracts/errors.ts'

/** The store failed or did not answer in time. An error that is one of ours already stays as it is. */
export function unavailable(cause: unknown): GatewayError {
  if (cause instanceof GatewayError) return cause
  return new GatewayError('DEPENDENCY_UNAVAILABLE', ERRORS.DEPENDENCY_UNAVAILABLE.message, { cause })
}

/** Does something with the store. @throws as `storeFailure` makes it of any failure */
export async function attempt<T>(act: () => Promise<T>, signal?: AbortSignal): Promise<T> {
  try {
    return await act()
  } catch (error) {
    throw storeFailure(error, signal)
  }
}

/** Chooses the error of a failed call: the signal's reason when it was aborted, else `unavailable`. */
export function storeFailure(error: unknown, signal?: AbortSignal): unknown {
  return signal?.aborted ? signal.reason : unavailable(error)
}

/**
 * Makes the error for a body that got neither memory nor an upload permit in time.
 *
 * @param retryAfterMs pause before the caller may retry; absent: the usual one
 */
export function overloaded(why: string, retryAfterMs?: number): GatewayError {
  return new GatewayError('OVERLOADED', ERRORS.OVERLOADED.message, {
    cause: new Error(why),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  })
}

/** The store gave other bytes than it was given. The code of the cause is that of file systems that keep checksums. */
export function damaged(key: string): GatewayError {
  const cause = new Error(`the store gave other bytes of ${key} than it was given`)
  return unavailable(Object.assign(cause, { code: 'EBADMSG' }))
}

/** Base64 text was checked on arrival, so this is a bug of ours or damage in the store. */
export function notBase64(): Error {
  return new Error('stored text is not base64, though it was when it arrived')
}
