interface Definition {
  readonly status: number
  readonly category: string
  /** Whether the caller may send the same request again. Failover between providers is decided elsewhere. */
  readonly retryable: boolean
  /** Sentence for the caller when no more specific one is given. */
  readonly message: string
}

/** Every error a caller can receive. `retryable` is also sent as `x-should-retry`. */
export const ERRORS = {
  INVALID_REQUEST: {
    status: 400,
    category: 'request',
    retryable: false,
    message: 'the request is not as documented',
  },
  ROUTE_CONTROL_NOT_ALLOWED: {
    status: 400,
    category: 'request',
    retryable: false,
    message: 'provider and model are chosen by the route of the key',
  },
  AUDIO_URL_REJECTED: {
    status: 400,
    category: 'request',
    retryable: false,
    message: 'audio is not fetched from this URL',
  },
  UNAUTHENTICATED: {
    status: 401,
    category: 'authentication',
    retryable: false,
    message: 'the API key is missing, malformed, unknown, revoked or expired',
  },
  INSUFFICIENT_CREDITS: {
    status: 402,
    category: 'billing',
    retryable: false,
    message: 'the credits of the workspace do not cover this call',
  },
  TRIAL_EXHAUSTED: {
    status: 402,
    category: 'billing',
    retryable: false,
    message: 'the trial of the workspace is used up or over',
  },
  BUDGET_EXCEEDED: {
    status: 402,
    category: 'billing',
    retryable: false,
    message: 'the budget of the month does not cover this call',
  },
  PERMISSION_DENIED: {
    status: 403,
    category: 'permission',
    retryable: false,
    message: 'the API key lacks the scope for this call',
  },
  PLAN_NOT_ENTITLED: {
    status: 403,
    category: 'billing',
    retryable: false,
    message: 'the plan of the workspace does not include this call',
  },
  NOT_FOUND: { status: 404, category: 'not_found', retryable: false, message: 'there is no such path' },
  JOB_NOT_FOUND: { status: 404, category: 'not_found', retryable: false, message: 'there is no such job' },
  METHOD_NOT_ALLOWED: {
    status: 405,
    category: 'request',
    retryable: false,
    message: 'this path does not take this method',
  },
  REQUEST_TIMEOUT: { status: 408, category: 'request', retryable: true, message: 'the body came too slowly' },
  CONFLICT: {
    status: 409,
    category: 'request',
    retryable: false,
    message: 'it was changed meanwhile',
  },
  IDEMPOTENCY_REPLAY_IN_PROGRESS: {
    status: 409,
    category: 'idempotency',
    retryable: true,
    message: 'the first request with this idempotency key is still running',
  },
  IDEMPOTENCY_KEY_REUSED: {
    status: 409,
    category: 'idempotency',
    retryable: false,
    message: 'this idempotency key was used for another request',
  },
  IDEMPOTENT_RESULT_UNAVAILABLE: {
    status: 409,
    category: 'idempotency',
    retryable: false,
    message: 'the first request with this idempotency key ended without a known result; use a new key',
  },
  LENGTH_REQUIRED: {
    status: 411,
    category: 'request',
    retryable: false,
    message: 'send Content-Length, or Transfer-Encoding: chunked',
  },
  PRECONDITION_FAILED: {
    status: 412,
    category: 'request',
    retryable: false,
    message: 'the version of the protocol is not served',
  },
  REQUEST_TOO_LARGE: {
    status: 413,
    category: 'limit',
    retryable: false,
    message: 'the body is over max_request_body_bytes',
  },
  AUDIO_TOO_LARGE: {
    status: 413,
    category: 'limit',
    retryable: false,
    message: 'the audio is over max_audio_bytes',
  },
  AUDIO_TOO_LONG: {
    status: 413,
    category: 'limit',
    retryable: false,
    message: 'the audio is over max_audio_seconds',
  },
  UNSUPPORTED_MEDIA_TYPE: {
    status: 415,
    category: 'request',
    retryable: false,
    message: 'this path does not take this Content-Type',
  },
  UNSUPPORTED_AUDIO_FORMAT: {
    status: 415,
    category: 'request',
    retryable: false,
    message: 'the audio is not mp3 (or other MPEG audio, without video), mp4, m4a, wav, webm, ogg or flac',
  },
  REQUIRED_FEATURE_UNAVAILABLE: {
    status: 422,
    category: 'routing',
    retryable: false,
    message: 'no entry of the route keeps every required feature',
  },
  UPSTREAM_REJECTED: {
    status: 422,
    category: 'upstream',
    retryable: false,
    message: 'the provider refused this input',
  },
  RATE_LIMITED: {
    status: 429,
    category: 'rate_limit',
    retryable: true,
    message: 'too many requests for this key',
  },
  CHECKSUM_MISMATCH: {
    // As tus has it.
    status: 460,
    category: 'request',
    retryable: true,
    message: 'the bytes are not those of the checksum; none of them was kept',
  },
  CLIENT_CLOSED: { status: 499, category: 'client', retryable: false, message: 'the client went away' },
  INTERNAL: { status: 500, category: 'internal', retryable: false, message: 'internal error' },
  UPSTREAM_ERROR: {
    status: 502,
    category: 'upstream',
    retryable: true,
    message: 'every eligible provider failed',
  },
  AUDIO_URL_FETCH_FAILED: {
    status: 502,
    category: 'upstream',
    retryable: true,
    message: 'the host of audio.url failed',
  },
  NO_HEALTHY_PROVIDER: {
    status: 503,
    category: 'routing',
    retryable: false,
    message: 'no entry of the route can serve the request',
  },
  PROVIDERS_COOLING_DOWN: {
    status: 503,
    category: 'upstream',
    retryable: true,
    message: 'all providers that could serve this request are rate limited',
  },
  OVERLOADED: {
    status: 503,
    category: 'capacity',
    retryable: true,
    message: 'this node takes no more requests now',
  },
  DEPENDENCY_UNAVAILABLE: {
    status: 503,
    category: 'internal',
    retryable: true,
    message: 'a store that the request needs does not answer',
  },
  UPSTREAM_TIMEOUT: {
    status: 504,
    category: 'upstream',
    retryable: true,
    message: 'the provider did not answer before the deadline',
  },
  UPSTREAM_OUTCOME_UNKNOWN: {
    status: 504,
    category: 'upstream',
    // Sent again it might be done, and paid for, twice.
    retryable: false,
    message: 'the answer of the provider was lost: it may have done the work',
  },
} as const satisfies Record<string, Definition>

export type ErrorCode = keyof typeof ERRORS

export interface ErrorExtra {
  /** Request field at fault, e.g. `response_format`; sent as `param`. */
  readonly param?: string
  /** Facts for the caller, sent as `details`. Never a key, a provider's body, an internal address or a stack. */
  readonly details?: Readonly<Record<string, unknown>>
  /** Wait before a retry, for retryable errors: sent as `Retry-After`, rounded up to whole seconds. */
  readonly retryAfterMs?: number
  /** Headers that go with the answer, e.g. `allow`. */
  readonly headers?: Readonly<Record<string, string>>
  /** The underlying error, for the log only. */
  readonly cause?: unknown
}

/** The one error class that becomes an answer. `message` is sent to the caller; `cause` goes to the log. */
export class GatewayError extends Error {
  override readonly name = 'GatewayError'
  readonly code: ErrorCode
  readonly extra: ErrorExtra

  constructor(code: ErrorCode, message: string = ERRORS[code].message, extra: ErrorExtra = {}) {
    super(message, extra.cause === undefined ? undefined : { cause: extra.cause })
    this.code = code
    this.extra = extra
  }
}

/** Any throwable as a GatewayError; what is not one already is INTERNAL, with the original as its cause. */
export function toGatewayError(thrown: unknown): GatewayError {
  if (thrown instanceof GatewayError) return thrown
  return new GatewayError('INTERNAL', ERRORS.INTERNAL.message, { cause: thrown })
}

/** Retryable errors with these statuses always carry Retry-After, others where the thrower names a time. */
const WAITING_STATUSES: ReadonlySet<number> = new Set([409, 429, 503])
/** `Retry-After` for these statuses when the error names no time. */
const DEFAULT_RETRY_AFTER_MS = 2_000

/** The envelope of an error and the headers that belong to it. */
export function errorReply(error: GatewayError, requestId: string) {
  const { status, category, retryable } = ERRORS[error.code]
  const { param = null, details = {}, retryAfterMs, headers = {} } = error.extra
  const body = {
    error: {
      code: error.code,
      category,
      retryable,
      message: error.message,
      param,
      type: category,
      request_id: requestId,
      details,
    },
  }
  const waits = retryable && (retryAfterMs !== undefined || WAITING_STATUSES.has(status))
  const waitMs = retryAfterMs ?? DEFAULT_RETRY_AFTER_MS
  return {
    status,
    body,
    headers: {
      ...headers,
      'x-should-retry': String(retryable),
      ...(waits ? { 'retry-after': String(Math.max(1, Math.ceil(waitMs / 1000))) } : {}),
    },
  }
}
