const ROOT = '/console/api'

/** The CSRF token of the session, which every change must carry. */
let csrfToken = ''
let whenSignedOut: () => void = () => {}
let resume: () => Promise<boolean> = async () => false
/** The one that runs: calls that are refused together ask once. */
let resuming: Promise<boolean> | null = null
/** The session is over: requests stop until the next sign-in. */
let isOver = false
const SIGNED_IN = 'lk-signed-in'
const CSRF_HEADER = 'x-lk-csrf'

export function setCsrfToken(token: string): void {
  csrfToken = token
}

/** That of now, for a request that has to outlive the page. */
export function currentCsrfToken(): string {
  return csrfToken
}

/** Announces a new sign-in: failed loads and saves are retried. */
export function signedInAgain(): void {
  isOver = false
  dispatchEvent(new Event(SIGNED_IN))
}

/** @returns ends the listening */
export function onSignedInAgain(listener: () => void): () => void {
  addEventListener(SIGNED_IN, listener)
  return () => removeEventListener(SIGNED_IN, listener)
}

/** Called when the API says that the session is over. */
export function onSignedOut(listener: () => void): void {
  whenSignedOut = listener
}

/**
 * Called when the token was refused: another tab has begun a session, whose cookie is this one's, too. Sets the token
 * of that session and says true if it is of the same viewer.
 */
export function onTokenRefused(listener: () => Promise<boolean>): void {
  resume = listener
}

/** Paths that need no session. */
const SIGNED_OUT_PATHS: ReadonlySet<string> = new Set(['/session', '/sign-in'])

interface Options {
  readonly signal?: AbortSignal
}

/** The console's API. Paths begin after `/console/api`; whatever is not 2xx throws an ApiError. */
export const api = {
  get: <Answer>(path: string, options?: Options) => call<Answer>('GET', path, undefined, options),
  put: <Answer>(path: string, body: unknown, options?: Options) => call<Answer>('PUT', path, body, options),
  post: <Answer>(path: string, body: unknown = {}, options?: Options) =>
    call<Answer>('POST', path, body, options),
  delete: <Answer>(path: string, options?: Options) => call<Answer>('DELETE', path, undefined, options),
}

async function call<Answer>(method: string, path: string, body: unknown, options: Options = {}) {
  const token = csrfToken
  try {
    return await askApi<Answer>(method, path, body, options)
  } catch (error) {
    if (!(error instanceof ApiError) || error.param !== CSRF_HEADER) throw error
    if (token === csrfToken) await takeNewToken()
    return askApi<Answer>(method, path, body, options)
  }
}

/** @throws ApiError when the session is over, or is now of another viewer */
async function takeNewToken(): Promise<void> {
  resuming ??= resume().finally(() => {
    resuming = null
  })
  if (await resuming) return
  endSession()
  throw sessionOver()
}

function endSession(): void {
  isOver = true
  whenSignedOut()
}

async function askApi<Answer>(method: string, path: string, body: unknown, { signal }: Options) {
  if (isOver && !SIGNED_OUT_PATHS.has(path)) throw sessionOver()
  const changes = method !== 'GET'
  const init: RequestInit = {
    method,
    credentials: 'same-origin',
    cache: 'no-store',
    headers: {
      accept: 'application/json',
      ...(changes ? { 'content-type': 'application/json', [CSRF_HEADER]: csrfToken } : {}),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    ...(signal ? { signal } : {}),
  }
  const answer = await fetch(ROOT + path, init).catch((error: unknown) => {
    if (signal?.aborted) throw error
    throw unreachable()
  })
  const text = await answer.text().catch((error: unknown) => {
    if (signal?.aborted) throw error
    throw unreachable()
  })
  if (!answer.ok) {
    const { headers } = answer
    const error = apiErrorOf(answer.status, text, headers.get('x-lk-request-id'), headers.get('retry-after'))
    // A wrong key at sign-in is 401, too, and ends nothing.
    if (answer.status === 401 && !SIGNED_OUT_PATHS.has(path)) endSession()
    throw error
  }
  try {
    return JSON.parse(text) as Answer
  } catch {
    throw apiErrorOf(answer.status, text, answer.headers.get('x-lk-request-id'))
  }
}

/** Tells if a path exists: 404 is an answer, too. */
export async function isThere(path: string, options?: Options): Promise<boolean> {
  try {
    await api.get(path, options)
    return true
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return false
    throw error
  }
}

/** An error of the API, or of the connection to it. `status` 0: there was no answer. */
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

  /** Why fields cannot be published, as `details.issues` has them. */
  get issues(): readonly string[] {
    const { issues } = this.details
    return Array.isArray(issues) ? issues.filter((issue) => typeof issue === 'string') : []
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
  return new ApiError(textIn(known.message) ?? `the server answered ${status}`, {
    code: textIn(known.code) ?? 'UNREADABLE',
    status,
    param: textIn(known.param),
    details: isRecord(known.details) ? known.details : {},
    requestId: textIn(known.request_id) ?? requestId,
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
function sessionOver(): ApiError {
  return new ApiError('your session has expired', { code: 'UNAUTHENTICATED', status: 401 })
}

/** True if a retry may succeed: the line or the server is away, or busy. */
export function isPassing({ status }: ApiError): boolean {
  return status === 0 || status === 401 || status === 429 || status >= 500
}

/** Any throwable as an ApiError; a fault of the page itself is `PAGE`. */
export function toApiError(thrown: unknown): ApiError {
  if (thrown instanceof ApiError) return thrown
  return new ApiError(thrown instanceof Error ? thrown.message : String(thrown), { code: 'PAGE', status: 0 })
}

/**
 * Advice for the reader of the error. Null: nothing is certain to help.
 *
 * @param retries the page asks again by itself as soon as the server lets it
 */
export function adviceFor({ code, status, retryAfterMs }: ApiError, retries = false): string | null {
  if (code === 'UNREACHABLE') return 'Check your connection, then try again.'
  if (code === 'DEPENDENCY_UNAVAILABLE') return 'Try again in a moment.'
  if (status === 403) return 'You aren’t allowed to do this with what you signed in with.'
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

function textIn(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null
}
