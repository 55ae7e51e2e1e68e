import { useEffect, useMemo, useState } from 'preact/hooks'
import type { SessionAnswer } from '../api/answers.ts'
import { onSignedOut } from './api.ts'
import { type ApiError, toApiError } from './api-error.ts'
import { html } from './html.ts'
import { NotFound } from './not-found.ts'
import { Boundary } from './parts/boundary.ts'
import { ErrorState } from './parts/states.ts'
import { toastFault } from './parts/toasts.ts'
import { pathOf, placeOf } from './paths.ts'
import { navigate, useLocation } from './router.ts'
import { currentSession, signOut } from './session.ts'
import { Shell } from './shell.ts'
import { SignIn } from './sign-in.ts'
import { PLATFORM_VIEWS, WORKSPACE_VIEWS } from './views.ts'

type Standing =
  | { readonly is: 'starting' }
  | { readonly is: 'failed'; readonly error: ApiError }
  | { readonly is: 'out'; readonly ended: boolean }
  | { readonly is: 'in'; readonly session: SessionAnswer }

/** Browsers wrap longer waits. */
const TIMER_MAX_MS = 2 ** 31 - 1

export function App() {
  const [standing, setStanding] = useState<Standing>({ is: 'starting' })
  const start = () => {
    setStanding({ is: 'starting' })
    currentSession().then(
      (session) => setStanding(session ? { is: 'in', session } : { is: 'out', ended: false }),
      (error: unknown) => setStanding({ is: 'failed', error: toApiError(error) }),
    )
  }
  useEffect(() => {
    onSignedOut(() => setStanding({ is: 'out', ended: true }))
    start()
  }, [])
  const session = standing.is === 'in' ? standing.session : null
  useEffect(() => {
    if (!session) return
    const leftMs = new Date(session.expires_at).getTime() - Date.now()
    const over = () => setStanding({ is: 'out', ended: true })
    const timer = setTimeout(over, Math.min(Math.max(leftMs, 0), TIMER_MAX_MS))
    return () => clearTimeout(timer)
  }, [session])
  const leave = () =>
    signOut().then(
      () => {
        setStanding({ is: 'out', ended: false })
        navigate('/console')
      },
      (error: unknown) => toastFault('Signing out', error),
    )

  if (standing.is === 'starting') return null
  if (standing.is === 'failed')
    return html`<main class="sign-in">
      <${ErrorState} error=${standing.error} what="The console" retry=${start} />
    </main>`
  if (standing.is === 'out') {
    const enter = (one: SessionAnswer) => setStanding({ is: 'in', session: one })
    return html`<${SignIn} ended=${standing.ended} onSession=${enter} />`
  }
  return html`<${Signed} session=${standing.session} onSignOut=${leave} />`
}

function Signed(props: { readonly session: SessionAnswer; readonly onSignOut: () => void }) {
  const { session, onSignOut } = props
  const { path, query } = useLocation()
  const place = useMemo(() => placeOf(path), [path])
  useEffect(() => {
    if (!place) navigate(pathOf(session.workspace), { replace: true })
  }, [place, session])
  if (!place) return null
  const { workspace, view, rest } = place
  const allowed = workspace !== null || session.role === 'operator'
  const entry = (workspace === null ? PLATFORM_VIEWS : WORKSPACE_VIEWS).find(({ id }) => id === view)
  return html`<${Shell} session=${session} place=${place} onSignOut=${onSignOut}>
    <${Boundary} place=${path}>
      ${
        entry && allowed
          ? html`<${entry.view}
              key=${`${workspace ?? ''}/${view}`}
              workspace=${workspace}
              path=${rest}
              query=${query}
              session=${session}
            />`
          : html`<${NotFound} workspace=${session.workspace} />`
      }
    <//>
  <//>`
}
