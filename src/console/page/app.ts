import { useEffect, useLayoutEffect, useMemo, useState } from 'preact/hooks'
import type { SessionAnswer } from '../server/answers/access.ts'
import { ApiError, api, onSignedOut, signedInAgain, toApiError } from './api.ts'

import { Boundary } from './components/boundary.ts'
import { LinkButton } from './components/button.ts'
import { PageHead } from './components/page-head.ts'
import { EmptyState, ErrorState } from './components/states.ts'
import { toastError } from './components/toasts.ts'
import { h } from './h.ts'
import { useLoad } from './load.ts'
import { apiPath, pathOf, placeOf } from './paths.ts'
import { navigate, useLocation } from './router.ts'
import { currentSession, signOut, viewerIn } from './session.ts'
import { Shell } from './shell.ts'
import { SignIn, SignInAgain } from './sign-in.ts'
import { viewAt } from './views.ts'

type Standing =
  | { readonly is: 'starting' }
  | { readonly is: 'failed'; readonly error: ApiError }
  | { readonly is: 'out' }
  /** `over`: the session has expired. The page stays behind the sign-in. */
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
  useLayoutEffect(() => {
    onSignedOut(() => setStanding(ended))
    start()
  }, [])
  const session = standing.is === 'in' && !standing.over ? standing.session : null
  useEffect(() => {
    if (!session) return
    const leftMs = new Date(session.expires_at).getTime() - Date.now()
    const over = () => setStanding(ended)
    const timer = setTimeout(over, Math.min(Math.max(leftMs, 0), TIMER_MAX_MS))
    return () => clearTimeout(timer)
  }, [session])
  const leave = () =>
    signOut().then(
      (issuerUrl) => {
        if (issuerUrl !== null) location.assign(issuerUrl)
        setStanding({ is: 'out' })
        navigate('/console')
      },
      (error: unknown) => toastError('Signing out', error),
    )

  if (standing.is === 'starting') return null
  if (standing.is === 'failed')
    return h(
      'main',
      { class: 'sign-in' },
      h(ErrorState, { error: standing.error, what: 'The console', retry: start }),
    )
  const enter = (one: SessionAnswer) => {
    setStanding({ is: 'in', session: one, over: false })
    signedInAgain()
  }
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

/** The session has expired. */
function ended(standing: Standing): Standing {
  return standing.is === 'in' ? { ...standing, over: true } : { is: 'out' }
}

function Signed(props: { readonly session: SessionAnswer; readonly onSignOut: () => void }) {
  const { session, onSignOut } = props
  const { path, query } = useLocation()
  const place = useMemo(() => placeOf(path), [path])
  const unknown = useUnknown(session, place?.workspace ?? null)
  useEffect(() => {
    if (!place) navigate(pathOf(session.workspace), { replace: true })
  }, [place, session])
  if (!place) return null
  const { workspace, view, rest } = place
  const isOperator = session.role === 'operator'
  const allowed =
    workspace === null ? isOperator : isOperator ? !unknown : session.workspaces.includes(workspace)
  const entry = viewAt(place)
  return h(
    Shell,
    { session, place, isKnown: allowed, onSignOut },
    h(
      Boundary,
      { place: path },
      entry && allowed
        ? h(entry.view, { key: `${workspace ?? ''}/${view}`, workspace, path: rest, query, session })
        : h(NotFound, { workspace: session.workspace }),
    ),
  )
}

/** Whether an operator's address names a workspace that is not there. */
function useUnknown({ role }: SessionAnswer, workspace: string | null): boolean {
  const load = useLoad(
    async (signal) => {
      if (role !== 'operator' || workspace === null) return true
      return api.get(apiPath`/workspaces/${workspace}`, { signal }).then(
        () => true,
        (error: unknown) => !(error instanceof ApiError && error.status === 404),
      )
    },
    [workspace],
  )
  return load.value === false
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
