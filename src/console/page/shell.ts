import type { ComponentChildren, ComponentType } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import type { SessionAnswer } from '../server/answers/access.ts'
import { Button, Icon } from './components/button.ts'
import { Time } from './components/time.ts'
import { Toasts, toastError } from './components/toasts.ts'
import { h } from './h.ts'
import { styleSheet } from './lazy.ts'
import { isSameName } from './names.ts'
import { type Place, pathOf } from './paths.ts'
import { navigate } from './router.ts'
import { forgetWorkspace, keepWorkspace, keptWorkspace, useWorkspaces, viewerIn } from './session.ts'
import { chooseTheme, storedTheme, type Theme } from './theme.ts'
import { PLATFORM_VIEWS, type ViewEntry, WORKSPACE_VIEWS } from './views.ts'

/** The frame of every view: header, navigation and messages. */
export function Shell(props: {
  readonly session: SessionAnswer
  readonly place: Place
  /** The place exists, and the session may see it; null: not known yet. */
  readonly isKnown: boolean | null
  readonly onSignOut: () => void
  readonly children?: ComponentChildren
}) {
  const { session, place, isKnown, onSignOut, children } = props
  const { workspace: at } = place
  if (at !== null && isKnown) keepWorkspace(at)
  if (isKnown === false) forgetWorkspace(at)
  // The platform's views keep the workspace at hand that one came from.
  const kept = keptWorkspace(session)
  const workspace = isKnown === false ? (kept === at ? null : kept) : (at ?? kept)
  const [open, setOpen] = useState(false)
  useEffect(() => setOpen(false), [place])
  const onKeyDown = (event: KeyboardEvent) => event.key === 'Escape' && setOpen(false)
  const finder = useFinder({ session, workspace })

  return h(
    'div',
    { class: open ? 'shell shell-open' : 'shell', onKeyDown },
    h('a', { class: 'skip', href: '#main' }, 'Skip to content'),
    h(
      'header',
      { class: 'top' },
      h(
        'span',
        { class: 'top-menu' },
        h(Button, {
          kind: 'quiet',
          icon: open ? 'close' : 'menu',
          label: open ? 'Close the menu' : 'Open the menu',
          expanded: open,
          controls: 'navigation',
          onClick: () => setOpen(!open),
        }),
      ),
      h(
        'a',
        { class: 'brand', href: pathOf(workspace), 'aria-label': 'Larkway, overview' },
        h(Mark, null),
        h('span', { class: 'brand-name' }, 'Larkway'),
      ),
      workspace === null ? null : h(WorkspacePicker, { session, workspace, place }),
      h(FinderButton, { onClick: finder.show }),
      h(AccountMenu, { session, workspace, onSignOut }),
    ),
    h(
      'nav',
      { class: 'side', id: 'navigation', 'aria-label': 'Console' },
      workspace === null ? null : h(Group, { title: 'Workspace', views: WORKSPACE_VIEWS, workspace, place }),
      session.role === 'operator'
        ? h(Group, { title: 'Platform', views: PLATFORM_VIEWS, workspace: null, place })
        : null,
      h(
        'div',
        { class: 'side-group' },
        h('p', { class: 'side-title' }, 'Help'),
        h('ul', null, h('li', null, h('a', { class: 'side-link', href: '/docs' }, 'API reference'))),
      ),
    ),
    h('main', { class: 'main', id: 'main', tabindex: -1 }, children),
    finder.dialog,
    h(Toasts, null),
  )
}

type PaletteProps = Parameters<typeof import('./palette.ts').Palette>[0]

/** The search, opened by its button or Ctrl+K. It is loaded when it is first wanted. */
function useFinder({ session, workspace }: Pick<PaletteProps, 'session' | 'workspace'>) {
  const [part, setPart] = useState<{ readonly Palette: ComponentType<PaletteProps> } | null>(null)
  const [open, setOpen] = useState(false)
  const load = async () => {
    const [loaded] = await Promise.all([import('./palette.ts'), styleSheet('style/palette.css')])
    setPart(loaded)
    setOpen(true)
  }
  const show = () => void load().catch((thrown: unknown) => toastError('Search', thrown))
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      // Ctrl+K cuts the rest of a line on a Mac.
      const asked = (isMac() ? event.metaKey : event.ctrlKey) && !event.altKey && !event.shiftKey
      // A dialog may hold what is not saved yet.
      if (!asked || event.key.toLowerCase() !== 'k' || document.querySelector('dialog[open]') !== null) return
      event.preventDefault()
      show()
    }
    addEventListener('keydown', onKeyDown)
    return () => removeEventListener('keydown', onKeyDown)
  }, [])
  const onClose = () => setOpen(false)
  return {
    show,
    dialog: open && part !== null ? h(part.Palette, { session, workspace, onClose }) : null,
  }
}

function FinderButton({ onClick }: { readonly onClick: () => void }) {
  return h(
    'button',
    {
      class: 'finder',
      type: 'button',
      'aria-haspopup': 'dialog',
      'aria-keyshortcuts': 'Control+K Meta+K',
      onClick,
    },
    h(Icon, { name: 'search' }),
    h('span', { class: 'finder-text' }, 'Search'),
    h('kbd', { class: 'finder-keys small', 'aria-hidden': 'true' }, isMac() ? '⌘K' : 'Ctrl K'),
  )
}

function isMac(): boolean {
  return /^Mac|^iP/.test(navigator.platform)
}

function Group(props: {
  readonly title: string
  readonly views: readonly ViewEntry[]
  readonly workspace: string | null
  readonly place: Place
}) {
  const { title, views, workspace, place } = props
  return h(
    'div',
    { class: 'side-group' },
    h('p', { class: 'side-title cut', title }, title),
    h(
      'ul',
      null,
      views
        .filter(({ unlisted }) => !unlisted)
        .map(({ id, title: name }) => {
          const here = place.workspace === workspace && place.view === id
          return h(
            'li',
            { key: id },
            h(
              'a',
              { class: 'side-link', href: pathOf(workspace, id), 'aria-current': here ? 'page' : undefined },
              name,
            ),
          )
        }),
    ),
  )
}

/** Which workspace the console is about: operators choose, and admins who have several. */
function WorkspacePicker(props: {
  readonly session: SessionAnswer
  readonly workspace: string
  readonly place: Place
}) {
  const { session, workspace, place } = props
  if (session.role === 'admin' && session.workspaces.length < 2)
    return h(
      'p',
      { class: 'picker-name cut', title: workspace },
      h('span', { class: 'hidden' }, 'Workspace '),
      workspace,
    )
  return h(Choice, { workspace, place })
}

function Choice({ workspace, place }: { readonly workspace: string; readonly place: Place }) {
  const { value } = useWorkspaces()
  const listed = value ?? []
  const named = listed.map(({ id, name }) => ({
    id,
    label: name === '' ? id : isSameName(name, id) ? name : `${name} (${id})`,
  }))
  const options = named.some(({ id }) => id === workspace)
    ? named
    : [{ id: workspace, label: workspace }, ...named]
  const choose = (event: Event) => {
    const view = WORKSPACE_VIEWS.find(({ id }) => id === place.view)?.id ?? 'overview'
    const select = event.currentTarget as HTMLSelectElement
    navigate(pathOf(select.value, view))
    // Leaving may have been refused; otherwise it is redrawn.
    select.value = workspace
  }
  return h(
    'span',
    { class: 'select picker' },
    h(
      'select',
      { class: 'input', 'aria-label': 'Workspace', value: workspace, onChange: choose },
      options.map(({ id, label }) => h('option', { key: id, value: id, selected: id === workspace }, label)),
    ),
  )
}

const THEMES: readonly (readonly [Theme, string])[] = [
  ['system', 'System'],
  ['light', 'Light'],
  ['dark', 'Dark'],
]

/** Shows the session and when it ends, the theme, and the way out. */
function AccountMenu(props: {
  readonly session: SessionAnswer
  readonly workspace: string | null
  readonly onSignOut: () => void
}) {
  const { role, expires_at: expiresAt, version } = props.session
  const { id, name } = viewerIn(props.session)
  const sessions = pathOf(role === 'operator' ? null : props.workspace, 'sessions')
  return [
    h(
      'button',
      { class: 'account', type: 'button', popovertarget: 'account', title: 'Session and theme' },
      h(Icon, { name: 'user' }),
      h('span', { class: 'account-name' }, name),
      h('span', { class: 'hidden' }, ', session and theme'),
    ),
    h(
      'div',
      { class: 'account-panel', id: 'account', popover: 'auto' },
      h(
        'div',
        null,
        h('p', { class: 'account-key' }, name),
        h('p', { class: 'quiet small' }, h('code', null, id), ' · ', role),
        h('p', { class: 'quiet small' }, 'Session ends ', h(Time, { at: expiresAt })),
        h(
          'p',
          { class: 'small' },
          h('a', { href: sessions }, role === 'operator' ? 'Sessions' : 'Your sessions'),
        ),
      ),
      h(ThemeChoice, null),
      h(
        'div',
        { class: 'row row-apart' },
        h(Button, { onClick: props.onSignOut }, 'Sign out'),
        h('span', { class: 'quiet small' }, 'Larkway ', version),
      ),
    ),
  ]
}

function ThemeChoice() {
  const [theme, setTheme] = useState<Theme>(storedTheme)
  useEffect(() => {
    // Another tab chose.
    const listener = () => setTheme(storedTheme())
    addEventListener('lk-theme', listener)
    return () => removeEventListener('lk-theme', listener)
  }, [])
  return h(
    'fieldset',
    { class: 'segments' },
    h('legend', { class: 'field-label' }, 'Theme'),
    h(
      'div',
      { class: 'segments-row' },
      THEMES.map(([value, label]) =>
        h(
          'label',
          { class: 'segment', key: value },
          h('input', {
            type: 'radio',
            name: 'theme',
            value,
            checked: theme === value,
            onChange: () => chooseTheme(value),
          }),
          h('span', null, label),
        ),
      ),
    ),
  )
}

/** The sign of the product: one way in, several out. */
export function Mark() {
  return h(
    'svg',
    { class: 'mark', viewBox: '0 0 20 20', 'aria-hidden': 'true', focusable: 'false' },
    h('path', { d: 'M2 10h5c3.5 0 3.5-6 7-6h4M7 10h11M7 10c3.5 0 3.5 6 7 6h4' }),
    h('circle', { cx: '3.2', cy: '10', r: '2.2' }),
  )
}
