import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { SessionAnswer } from '../server/answers/access.ts'
import { type ApiError, isThere, onSignedOut, onTokenRefused, signedInAgain, toApiError } from './api.ts'

import { Boundary } from './components/boundary.ts'
import { LinkButton } from './components/button.ts'
import { PageHead } from './components/page-head.ts'
import { EmptyState, ErrorState } from './components/states.ts'
import { toastError } from './components/toasts.ts'
import { h } from './h.ts'
import { useLoad } from './load.ts'
import { apiPath, pathOf, placeOfPath } from './paths.ts'
import { dropLeaveGuard, mayEnd, navigate, useLocation } from './router.ts'
import { currentSession, sessionOfSame, signOut, viewerIn } from './session.ts'
import { Shell } from './shell.ts'
import { SignIn, SignInAgain } from './sign-in.ts'
import { viewAt } from './views.ts'

type Standing =
  | { readonly is: 'starting' }
  | { readonly is: 'failed'; readonly error: ApiError }
  | { readonly is: 'out' }
  /** `over`: the session has expired. The sign-in covers the page, which stays. */
  | { readonly is: 'in'; readonly session: SessionAnswer; readonly over: boolean }

/** Browsers wrap longer waits. */
const TIMER_MAX_MS = 2 ** 31 - 1

export function App() {
  const [standing, setStanding] = useState<Standing>({ is: 'starting' })
  const start = () => {
    setStanding({ is: 'starting' })
    currentSession().then(
      (session) => setStanding(session ? { is: 'in', session, over: false } : { is: 'out' }),
      (error: unknown) => setStanding({ is: 'failed', error: toApiError(error) }),
    )
  }
  const enter = (one: SessionAnswer) => {
    setStanding({ is: 'in', session: one, over: false })
    signedInAgain()
  }
  const latest = useRef(standing)
  latest.current = standing
  useLayoutEffect(() => {
    onSignedOut(() => setStanding(endedStanding))
    onTokenRefused(async () => {
      const before = latest.current
      const session = before.is === 'in' ? await sessionOfSame(before.session) : null
      if (session) setStanding({ is: 'in', session, over: false })
      return session !== null
    })
    start()
  }, [])
  const session = standing.is === 'in' && !standing.over ? standing.session : null
  useEffect(() => {
    if (!session) return
    const leftMs = new Date(session.expires_at).getTime() - Date.now()
    const over = () => setStanding(endedStanding)
    const timer = setTimeout(over, Math.min(Math.max(leftMs, 0), TIMER_MAX_MS))
    return () => clearTimeout(timer)
  }, [session])
  useReturn(standing.is === 'in' && standing.over ? standing.session : null, enter)
  const leave = () => {
    if (!mayEnd()) return
    signOut().then(
      (issuerUrl) => {
        dropLeaveGuard()
        if (issuerUrl !== null) location.assign(issuerUrl)
        setStanding({ is: 'out' })
        navigate('/console')
      },
      (error: unknown) => toastError('Signing out', error),
    )
  }

  if (standing.is === 'starting') return null
  if (standing.is === 'failed')
    return h(
      'main',
      { class: 'sign-in' },
      h(ErrorState, { error: standing.error, what: 'The console', retry: start }),
    )
  if (standing.is === 'out') return h(SignIn, { ended: false, onSession: enter })
  // Edits that were not saved yet go on where they were, for the same viewer: it is another page for another.
  return [
    standing.over ? h(SignInAgain, { onSession: enter }) : null,
    h(
      'div',
      { class: 'signed', hidden: standing.over },
      h(Signed, { key: viewerIn(standing.session).id, session: standing.session, onSignOut: leave }),
    ),
  ]
}

/**
 * Brings a viewer whose session is over back to where they were: also when they sign in again in another tab, once this
 * one is seen. The sign-in takes the title and the focus; both return to the page.
 *
 * @param over the session that is over; null: it continues
 */
function useReturn(over: SessionAnswer | null, onSession: (session: SessionAnswer) => void): void {
  useLayoutEffect(() => {
    if (!over) return
    const { title, activeElement } = document
    return () => {
      document.title = title
      const isGone = activeElement === document.body || !activeElement?.isConnected
      const element = isGone ? document.querySelector('.signed h1') : activeElement
      if (element instanceof HTMLElement) element.focus({ preventScroll: true })
    }
  }, [over])
  useEffect(() => {
    if (!over) return
    let isDone = false
    const seen = async () => {
      if (document.hidden) return
      // Without an answer the sign-in stays, which says so itself.
      const session = await sessionOfSame(over).catch(() => null)
      if (session && !isDone) onSession(session)
    }
    document.addEventListener('visibilitychange', seen)
    return () => {
      isDone = true
      document.removeEventListener('visibilitychange', seen)
    }
  }, [over])
}

/** The session has expired. */
function endedStanding(standing: Standing): Standing {
  return standing.is === 'in' ? { ...standing, over: true } : { is: 'out' }
}

function Signed(props: { readonly session: SessionAnswer; readonly onSignOut: () => void }) {
  const { session, onSignOut } = props
  const { path, query } = useLocation()
  const place = useMemo(() => placeOfPath(path), [path])
  const exists = useExists(session, place?.workspace ?? null)
  useEffect(() => {
    if (!place) navigate(pathOf(session.workspace), { replace: true })
  }, [place, session])
  if (!place) return null
  const { workspace, view, rest } = place
  const isOperator = session.role === 'operator'
  const allowed =
    workspace === null ? isOperator : isOperator ? exists !== false : session.workspaces.includes(workspace)
  const entry = viewAt(place)
  return h(
    Shell,
    { session, place, isKnown: allowed && exists, onSignOut },
    h(
      Boundary,
      { place: path },
      entry && allowed
        ? h(entry.view, { key: `${workspace ?? ''}/${view}`, workspace, path: rest, query, session })
        : h(NotFound, { workspace: session.workspace }),
    ),
  )
}

/** True if the workspace exists that an operator's address names; null: not known yet. */
function useExists({ role }: SessionAnswer, workspace: string | null): boolean | null {
  const load = useLoad(
    async (signal) => {
      if (role !== 'operator' || workspace === null) return true
      return isThere(apiPath`/workspaces/${workspace}`, { signal })
    },
    [workspace],
  )
  return load.value
}

function NotFound({ workspace }: { readonly workspace: string | null }) {
  return [
    h(PageHead, { title: 'Page not found' }),
    h(
      EmptyState,
      {
        title: 'This page doesn’t exist, or you can’t access it',
        action: h(LinkButton, { href: pathOf(workspace) }, 'Go to the overview'),
      },
      h('p', null, 'Check the address, or pick a page from the menu.'),
    ),
  ]
}
