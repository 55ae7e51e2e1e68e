import { useEffect } from 'preact/hooks'
import type { SessionAnswer, SignInAnswer, SignOutAnswer } from '../server/answers/access.ts'
import type { WorkspaceSummary } from '../server/answers/workspaces.ts'
import { ApiError, api, setCsrfToken } from './api.ts'
import { type Load, useLoad } from './load.ts'

/** The session of the cookie, which this page continues with; null: there is none. */
export async function currentSession(): Promise<SessionAnswer | null> {
  const session = await sessionOfCookie()
  return session && begun(session)
}

/** The session that another tab has begun for the same viewer; null: there is none, or it is another viewer's. */
export async function sessionOfSame(viewer: SessionAnswer): Promise<SessionAnswer | null> {
  const session = await sessionOfCookie()
  return session !== null && viewerIn(session).id === viewerIn(viewer).id ? begun(session) : null
}

async function sessionOfCookie(): Promise<SessionAnswer | null> {
  try {
    return await api.get<SessionAnswer>('/session')
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

/** Ends the session. @returns where to go to end the one at the issuer, too; null: there is none */
export async function signOut(): Promise<string | null> {
  await Promise.all([...leaving].map((giveBack) => giveBack()))
  const { logout_url: url } = await api.delete<SignOutAnswer>('/session')
  setCsrfToken('')
  return url ?? null
}

/** The ways to sign in at this server. */
export function useWaysIn(): Load<SignInAnswer> {
  return useLoad((signal) => api.get<SignInAnswer>('/sign-in', { signal }), [])
}

/** The signed-in key's holder, or person. */
export function viewerIn({ key, person }: SessionAnswer): { readonly id: string; readonly name: string } {
  if (person !== null) return { id: person.subject, name: person.name }
  return key ?? { id: '', name: '' }
}

function begun(session: SessionAnswer): SessionAnswer {
  setCsrfToken(session.csrf_token)
  return session
}

const LAST = 'lk-workspace'

/** The workspace that this tab was in before it was loaded again, on one of the platform's views for one. */
export function keptWorkspace({ role, workspace, workspaces }: SessionAnswer): string | null {
  try {
    const kept = sessionStorage.getItem(LAST)
    return kept !== null && (role === 'operator' || workspaces.includes(kept)) ? kept : workspace
  } catch {
    return workspace
  }
}

export function keepWorkspace(workspace: string): void {
  try {
    sessionStorage.setItem(LAST, workspace)
  } catch {
    // Storage may be forbidden: the own workspace is at hand then.
  }
}

/** It is not there, or no longer. */
export function forgetWorkspace(workspace: string | null): void {
  try {
    if (sessionStorage.getItem(LAST) === workspace) sessionStorage.removeItem(LAST)
  } catch {
    // Without storage there is nothing to forget.
  }
}

const CHANGED = 'lk-workspaces'

/** Tells the picker that a workspace was made, renamed or deleted. */
export function workspacesChanged(): void {
  dispatchEvent(new Event(CHANGED))
}

/** Workspaces that the session may see, also after changes. */
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
