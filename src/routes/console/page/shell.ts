import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import type { SessionAnswer } from '../api/answers.ts'
import { html } from './html.ts'
import { AccountMenu } from './parts/account-menu.ts'
import { Button } from './parts/button.ts'
import { Mark } from './parts/mark.ts'
import { Toasts } from './parts/toasts.ts'
import { type Place, pathOf } from './paths.ts'
import { PLATFORM_VIEWS, type ViewEntry, WORKSPACE_VIEWS } from './views.ts'
import { WorkspacePicker } from './workspace-picker.ts'

/** What stands around every view: header, navigation and messages. */
export function Shell(props: {
  readonly session: SessionAnswer
  readonly place: Place
  /** The place is one that there is, and the session may see. */
  readonly isKnown: boolean
  readonly onSignOut: () => void
  readonly children?: ComponentChildren
}) {
  const { session, place, isKnown, onSignOut, children } = props
  // The platform's views keep the workspace at hand that one came from.
  const last = useRef(keptWorkspace(session))
  if (place.workspace !== null && isKnown) last.current = place.workspace
  const workspace = last.current
  useEffect(() => keepWorkspace(workspace), [workspace])
  const [open, setOpen] = useState(false)
  useEffect(() => setOpen(false), [place])
  const onKeyDown = (event: KeyboardEvent) => event.key === 'Escape' && setOpen(false)

  return html`<div class=${open ? 'shell shell-open' : 'shell'} onKeyDown=${onKeyDown}>
    <a class="skip" href="#main">Skip to content</a>
    <header class="top">
      <span class="top-menu">
        <${Button}
          kind="quiet"
          icon=${open ? 'close' : 'menu'}
          label=${open ? 'Close the menu' : 'Open the menu'}
          expanded=${open}
          controls="navigation"
          onClick=${() => setOpen(!open)}
        />
      </span>
      <a class="brand" href=${pathOf(workspace)} aria-label="Larkway, overview">
        <${Mark} /><span class="brand-name">Larkway</span>
      </a>
      <${WorkspacePicker} session=${session} workspace=${workspace} place=${place} />
      <${AccountMenu} session=${session} onSignOut=${onSignOut} />
    </header>
    <nav class="side" id="navigation" aria-label="Console">
      <${Group} title="Workspace" views=${WORKSPACE_VIEWS} workspace=${workspace} place=${place} />
      ${
        session.role === 'operator'
          ? html`<${Group} title="Platform" views=${PLATFORM_VIEWS} workspace=${null} place=${place} />`
          : null
      }
      <div class="side-group">
        <p class="side-title">Help</p>
        <ul>
          <li><a class="side-link" href="/docs">API reference</a></li>
        </ul>
      </div>
    </nav>
    <main class="main" id="main" tabindex="-1">${children}</main>
    <${Toasts} />
  </div>`
}

const LAST = 'lk-workspace'

/** The workspace that this tab was in before it was loaded again, on one of the platform's views for one. */
function keptWorkspace({ role, workspace }: SessionAnswer): string {
  try {
    return (role === 'operator' ? sessionStorage.getItem(LAST) : null) ?? workspace
  } catch {
    return workspace
  }
}

function keepWorkspace(workspace: string): void {
  try {
    sessionStorage.setItem(LAST, workspace)
  } catch {
    // Storage may be forbidden: the own workspace is at hand then.
  }
}

function Group(props: {
  readonly title: string
  readonly views: readonly ViewEntry[]
  readonly workspace: string | null
  readonly place: Place
}) {
  const { title, views, workspace, place } = props
  return html`<div class="side-group">
    <p class="side-title cut" title=${title}>${title}</p>
    <ul>
      ${views
        .filter(({ unlisted }) => !unlisted)
        .map(({ id, title: name }) => {
          const here = place.workspace === workspace && place.view === id
          return html`<li key=${id}>
          <a class="side-link" href=${pathOf(workspace, id)} aria-current=${here ? 'page' : undefined}>${name}</a>
        </li>`
        })}
    </ul>
  </div>`
}
