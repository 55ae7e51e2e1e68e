import { apiErrorOf, sessionOver, unreachable } from './api-error.ts'

const ROOT = '/console/api'

/** Of the session: what every change has to carry. */
let csrfToken = ''
let whenSignedOut: () => void = () => {}
/** The session is over: nothing is asked until somebody signs in again. */
let isOver = false
const SIGNED_IN = 'lk-signed-in'

export function setCsrfToken(token: string): void {
  csrfToken = token
}

/** Says that somebody has signed in again, so that what could not be loaded or saved is tried anew. */
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

async function call<Answer>(method: string, path: string, body: unknown, { signal }: Options = {}) {
  if (isOver && path !== '/session') throw sessionOver()
  const changes = method !== 'GET'
  const init: RequestInit = {
    method,
    credentials: 'same-origin',
    cache: 'no-store',
    headers: {
      accept: 'application/json',
      ...(changes ? { 'content-type': 'application/json', 'x-lk-csrf': csrfToken } : {}),
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
    if (answer.status === 401 && path !== '/session') {
      isOver = true
      whenSignedOut()
    }
    throw error
  }
  try {
    return JSON.parse(text) as Answer
  } catch {
    throw apiErrorOf(answer.status, text, answer.headers.get('x-lk-request-id'))
  }
}
