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

const leaving = new Set<() => Promise<void>>()

/** Has `giveBack` return what was made for the session, while that is still allowed. */
export function beforeSignOut(giveBack: () => Promise<void>): void {
  leaving.add(giveBack)
}

export async function signOut(): Promise<void> {
  await Promise.all([...leaving].map((giveBack) => giveBack()))
  await api.delete('/session')
  setCsrfToken('')
}

function begun(session: SessionAnswer): SessionAnswer {
  setCsrfToken(session.csrf_token)
  return session
}
