import type { SessionAnswer } from '../api/answers.ts'
import { api, setCsrfToken } from './api.ts'
import { ApiError } from './api-error.ts'

/** The session that the cookie stands for; null: there is none. */
export async function currentSession(): Promise<SessionAnswer | null> {
  try {
    return begun(await api.get<SessionAnswer>('/session'))
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) return null
    throw error
  }
}

/** Signs in with an API key of scope admin or operator. */
export async function signIn(key: string): Promise<SessionAnswer> {
  return begun(await api.post<SessionAnswer>('/session', { key }))
}

export async function signOut(): Promise<void> {
  await api.delete('/session')
  setCsrfToken('')
}

function begun(session: SessionAnswer): SessionAnswer {
  setCsrfToken(session.csrf_token)
  return session
}
