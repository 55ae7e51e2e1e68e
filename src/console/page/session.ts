import { useEffect } from 'preact/hooks'
import type { SessionAnswer, WorkspaceSummary } from '../server/api/answers.ts'
import { ApiError, api, setCsrfToken } from './api.ts'
import { type Load, useLoad } from './load.ts'

/** The session of the cookie; null: there is none. */
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

/** Registers `giveBack`, which revokes things made for the session while that is still allowed. */
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

const CHANGED = 'lk-workspaces'

/** Tells the picker that a workspace was made, renamed or deleted. */
export function workspacesChanged(): void {
  dispatchEvent(new Event(CHANGED))
}

/** Those that the session may see, also after changes. */
export function useWorkspaces(): Load<readonly WorkspaceSummary[]> {
  const load = useLoad(
    async (signal): Promise<readonly WorkspaceSummary[]> =>
      (await api.get<{ workspaces: WorkspaceSummary[] }>('/workspaces', { signal })).workspaces,
    [],
  )
  const { reload } = load
  useEffect(() => {
    addEventListener(CHANGED, reload)
    return () => removeEventListener(CHANGED, reload)
  }, [reload])
  return load
}
