/** What the API refused, or why it could not be asked. `status` 0: there was no answer. */
export class ApiError extends Error {
  override readonly name = 'ApiError'
  readonly code: string
  readonly status: number
  readonly param: string | null
  readonly details: Readonly<Record<string, unknown>>
  readonly requestId: string | null
  /** When to ask again, as the server says; null: it does not. */
  readonly retryAfterMs: number | null

  constructor(
    message: string,
    known: {
      readonly code: string
      readonly status: number
      readonly param?: string | null
      readonly details?: Readonly<Record<string, unknown>>
      readonly requestId?: string | null
      readonly retryAfterMs?: number | null
    },
  ) {
    super(message)
    this.code = known.code
    this.status = known.status
    this.param = known.param ?? null
    this.details = known.details ?? {}
    this.requestId = known.requestId ?? null
    this.retryAfterMs = known.retryAfterMs ?? null
  }

  /** Why fields cannot be published, as `details.faults` has them. */
  get faults(): readonly string[] {
    const { faults } = this.details
    return Array.isArray(faults) ? faults.filter((fault) => typeof fault === 'string') : []
  }
}

/** The error of an answer that is none of 2xx. A proxy in between may have sent anything. */
export function apiErrorOf(
  status: number,
  body: string,
  requestId: string | null,
  retryAfter: string | null = null,
): ApiError {
  const retryAfterMs = status === 429 ? retryAfterOf(retryAfter) : null
  const known = envelopeOf(body)
  if (!known) {
    const message = `unexpected answer from the server (HTTP ${status})`
    return new ApiError(message, { code: 'UNREADABLE', status, requestId, retryAfterMs })
  }
  return new ApiError(textOf(known.message) ?? `the server answered ${status}`, {
    code: textOf(known.code) ?? 'UNREADABLE',
    status,
    param: textOf(known.param),
    details: isRecord(known.details) ? known.details : {},
    requestId: textOf(known.request_id) ?? requestId,
    retryAfterMs,
  })
}

const RETRY_AFTER_MAX_S = 3600

/** Whole seconds, as Larkway writes it; a proxy may have sent anything. */
function retryAfterOf(text: string | null): number | null {
  const seconds = /^\d{1,9}$/.test(text ?? '') ? Number(text) : null
  return seconds === null ? null : Math.min(Math.max(seconds, 1), RETRY_AFTER_MAX_S) * 1000
}

/** No answer: the network, or the server, is away. */
export function unreachable(): ApiError {
  return new ApiError('can’t reach the server', { code: 'UNREACHABLE', status: 0 })
}

/** The session is over, and nothing was asked. */
export function sessionOver(): ApiError {
  return new ApiError('your session has expired', { code: 'UNAUTHENTICATED', status: 401 })
}

/** Whether the same may well succeed a little later: the line or the server is away, or it is busy. */
export function isPassing({ status }: ApiError): boolean {
  return status === 0 || status === 401 || status === 429 || status >= 500
}

/** Any throwable as an ApiError; a fault of the page itself is `PAGE`. */
export function toApiError(thrown: unknown): ApiError {
  if (thrown instanceof ApiError) return thrown
  return new ApiError(thrown instanceof Error ? thrown.message : String(thrown), { code: 'PAGE', status: 0 })
}

/**
 * What somebody who sees the error can do. Null: nothing that would help for certain.
 *
 * @param retries the page asks again by itself as soon as the server lets it
 */
export function adviceFor({ code, status, retryAfterMs }: ApiError, retries = false): string | null {
  if (code === 'UNREACHABLE') return 'Check your connection, then try again.'
  if (code === 'DEPENDENCY_UNAVAILABLE') return 'Try again in a moment.'
  if (status === 403) return 'The key you signed in with isn’t allowed to do this.'
  if (status === 404) return 'It may have been removed.'
  if (status === 409) return 'Someone else changed it. Reload, then make your change again.'
  if (status === 429) {
    if (retryAfterMs === null) return 'Wait a moment, then try again.'
    const seconds = retryAfterMs / 1000
    return retries ? `Retrying in ${seconds} s…` : `Try again in ${seconds} s.`
  }
  if (status >= 500) return 'Try again. If it keeps failing, look up the request ID in the log.'
  return null
}

function envelopeOf(body: string): Record<string, unknown> | null {
  try {
    const parsed: unknown = JSON.parse(body)
    return isRecord(parsed) && isRecord(parsed.error) ? parsed.error : null
  } catch {
    return null
  }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function textOf(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null
}
