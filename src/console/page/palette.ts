import { useEffect, useId, useMemo, useRef, useState } from 'preact/hooks'
import type { SessionAnswer } from '../server/answers/access.ts'
import type { NamesAnswer } from '../server/answers/workspaces.ts'
import { api } from './api.ts'
import { Dialog } from './components/dialog.ts'
import { plural } from './format.ts'
import { h } from './h.ts'
import { useLoad } from './load.ts'
import { isSameName } from './names.ts'
import { apiPath, pathOf, queryOf } from './paths.ts'
import { navigate } from './router.ts'
import { useWorkspaces } from './session.ts'
import { PLATFORM_VIEWS, type ViewEntry, WORKSPACE_VIEWS } from './views.ts'

/** Something to go to. */
export interface Goal {
  readonly group: string
  readonly label: string
  /** Beside the label, e.g. an id. */
  readonly more?: string
  readonly path: string
}

/** Goals of one kind that are shown. */
const KIND_MAX = 6
const ASK_AFTER_MS = 120

/** Finds pages, things and ids by their names, with the keyboard alone. */
export function Palette(props: {
  readonly session: SessionAnswer
  readonly workspace: string | null
  readonly onClose: () => void
}) {
  const { session, workspace, onClose } = props
  const [text, setText] = useState('')
  const [at, setAt] = useState(0)
  const { goals, busy } = useGoals(session, workspace, text)
  const id = useId()
  const chosen = Math.min(at, goals.length - 1)
  const go = (goal: Goal | undefined) => {
    if (goal === undefined) return
    onClose()
    navigate(goal.path)
  }
  const onKeyDown = (event: KeyboardEvent) => {
    const to = placeAfter(event.key, chosen, goals.length)
    if (event.key === 'Enter' && !event.isComposing) go(goals[chosen])
    else if (to !== null) setAt(to)
    else return
    event.preventDefault()
  }
  return h(
    Dialog,
    { title: 'Search', onClose },
    h('input', {
      class: 'input',
      type: 'text',
      role: 'combobox',
      'data-autofocus': '',
      'aria-label': 'Page, route, app, key, provider, workspace or ID',
      'aria-autocomplete': 'list',
      'aria-expanded': goals.length > 0 ? 'true' : 'false',
      'aria-controls': `${id}-list`,
      'aria-activedescendant': goals.length > 0 ? `${id}-${chosen}` : undefined,
      placeholder: 'Page, route, app, key, provider, workspace or ID',
      autocomplete: 'off',
      spellcheck: false,
      maxLength: 128,
      value: text,
      onInput: (event) => {
        setText(event.currentTarget.value)
        setAt(0)
      },
      onKeyDown,
    }),
    h(
      'p',
      { class: 'hidden', role: 'status' },
      busy ? '' : goals.length === 0 ? 'No results' : plural(goals.length, 'result'),
    ),
    goals.length === 0 && !busy ? h('p', { class: 'quiet' }, 'No results.') : null,
    h(Results, { id, goals, chosen, onChoose: setAt, onGo: go }),
  )
}

function Results(props: {
  readonly id: string
  readonly goals: readonly Goal[]
  readonly chosen: number
  readonly onChoose: (index: number) => void
  readonly onGo: (goal: Goal) => void
}) {
  const { id, goals, chosen, onChoose, onGo } = props
  const list = useRef<HTMLUListElement>(null)
  useEffect(() => {
    list.current?.querySelector('[aria-selected=true]')?.scrollIntoView({ block: 'nearest' })
  }, [chosen, goals])
  return h(
    'ul',
    { class: 'palette', id: `${id}-list`, role: 'listbox', 'aria-label': 'Results', ref: list },
    goals.map((goal, index) =>
      h(
        'li',
        {
          key: `${goal.group} ${goal.path}`,
          id: `${id}-${index}`,
          class: 'palette-goal',
          role: 'option',
          'aria-selected': index === chosen ? 'true' : 'false',
          onPointerMove: () => onChoose(index),
          onClick: () => onGo(goal),
        },
        h('span', { class: 'palette-label' }, goal.label),
        goal.more === undefined ? null : h('span', { class: 'mono small quiet palette-more' }, goal.more),
        h('span', { class: 'small quiet palette-group' }, goal.group),
      ),
    ),
  )
}

/** The place in a list of `count` after a key; null: the key moves nothing. */
function placeAfter(key: string, at: number, count: number): number | null {
  if (count === 0) return null
  if (key === 'ArrowDown') return (at + 1) % count
  if (key === 'ArrowUp') return (at - 1 + count) % count
  if (key === 'PageDown') return Math.min(at + KIND_MAX, count - 1)
  if (key === 'PageUp') return Math.max(at - KIND_MAX, 0)
  return null
}

function useGoals(session: SessionAnswer, workspace: string | null, text: string) {
  const typed = text.trim()
  const search = useLater(typed)
  const workspaces = useWorkspaces()
  const providers = useLoad(
    async (signal) => {
      if (workspace === null) return []
      const path = apiPath`/workspaces/${workspace}/providers`
      return (await api.get<{ readonly providers: readonly { readonly name: string }[] }>(path, { signal }))
        .providers
    },
    [workspace],
  )
  const found = useLoad(
    async (signal) => {
      if (workspace === null || search === '') return []
      const kinds = ['routes', 'apps', 'keys'] as const
      const answers = await Promise.all(
        kinds.map((of) => {
          const query = queryOf({ of, search, limit: KIND_MAX })
          return api.get<NamesAnswer>(apiPath`/workspaces/${workspace}/names` + query, { signal })
        }),
      )
      return kinds.flatMap((of, index) =>
        (answers[index]?.names ?? []).map((name) => namedGoal(workspace, of, name)),
      )
    },
    [workspace, search],
  )
  const goals = useMemo(() => {
    const pages = [
      ...(workspace === null ? [] : pagesOf(workspace)),
      ...(session.role === 'operator' ? pagesOf(null) : []),
    ]
    const own = (providers.value ?? []).map(({ name }) => providerGoal(workspace, name))
    const all = (workspaces.value ?? []).map(({ id, name }) => workspaceGoal(id, name))
    return [
      ...idGoals(workspace, typed),
      ...matching(pages, typed),
      ...(found.value ?? []),
      ...(typed === '' ? [] : [...matching(own, typed), ...matching(all, typed)]),
      ...searchGoals(workspace, typed),
      ...(session.role === 'operator' ? platformGoals(typed) : []),
    ]
  }, [session.role, workspace, typed, found.value, providers.value, workspaces.value])
  return { goals, busy: found.busy || search !== typed }
}

/** A text, once typing has paused. */
function useLater(text: string): string {
  const [later, setLater] = useState(text)
  useEffect(() => {
    const timer = setTimeout(() => setLater(text), ASK_AFTER_MS)
    return () => clearTimeout(timer)
  }, [text])
  return later
}

function pagesOf(workspace: string | null): readonly Goal[] {
  const views: readonly ViewEntry[] = workspace === null ? PLATFORM_VIEWS : WORKSPACE_VIEWS
  return views
    .filter(({ unlisted }) => !unlisted)
    .map(({ id, title }) => ({
      group: workspace === null ? 'Platform' : 'Page',
      label: title,
      path: pathOf(workspace, id),
    }))
}

function namedGoal(
  workspace: string,
  of: 'routes' | 'apps' | 'keys',
  { id, name }: { readonly id: string; readonly name: string },
): Goal {
  if (of === 'routes') return { group: 'Route', label: name, path: pathOf(workspace, 'routes', name) }
  const path = pathOf(workspace, of) + queryOf({ q: id })
  return of === 'apps' ? { group: 'App', label: name, path } : { group: 'Key', label: name, more: id, path }
}

function providerGoal(workspace: string | null, name: string): Goal {
  return { group: 'Provider', label: name, path: pathOf(workspace, 'providers', name) }
}

function workspaceGoal(id: string, name: string): Goal {
  return {
    group: 'Workspace',
    label: name === '' ? id : name,
    ...(isSameName(name, id) ? {} : { more: id }),
    path: pathOf(id),
  }
}

/** Goals with each word of the text, first those that begin with it. */
export function matching(goals: readonly Goal[], text: string): readonly Goal[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean)
  const begins = ({ label }: Goal) => label.toLowerCase().startsWith(words[0] ?? '')
  const found = goals.filter(({ label, more = '', group }) => {
    const said = `${label} ${more} ${group}`.toLowerCase()
    return words.every((word) => said.includes(word))
  })
  const ordered = found.toSorted((one, other) => Number(begins(other)) - Number(begins(one)))
  return words.length === 0 ? ordered : ordered.slice(0, KIND_MAX)
}

const IDS: readonly (readonly [form: RegExp, group: string])[] = [
  [/^key_\w{4,}$/, 'Key'],
  [/^tj_\w{4,}$/, 'Job'],
  [/^(?:req|rec|use)_\w{4,}$/, 'Request'],
  [/^(?:qj|live|sess)_\w{4,}$/, 'Requests'],
  [/^[\da-f]{32}$/i, 'Trace'],
]

/** Where an id leads by its form. */
export function idGoals(workspace: string | null, text: string): readonly Goal[] {
  const group = IDS.find(([form]) => form.test(text))?.[1]
  if (workspace === null || group === undefined) return []
  const label = `Go to ${text}`
  if (group === 'Key') return [{ group, label, path: pathOf(workspace, 'keys') + queryOf({ q: text }) }]
  const requests = { group, label, path: logPath(workspace, text) }
  if (group !== 'Job') return [requests]
  return [
    { group, label, path: pathOf(workspace, 'jobs', text) },
    { ...requests, group: 'Requests', label: `Requests of ${text}` },
  ]
}

/** The log, searched for an id. */
function logPath(workspace: string | null, id: string): string {
  return pathOf(workspace, 'requests') + queryOf({ tab: 'log', id })
}

/** Callers choose ids of requests: whatever is one word may be one. */
function searchGoals(workspace: string | null, text: string): readonly Goal[] {
  if (workspace === null || text === '' || /\s/.test(text) || idGoals(workspace, text).length > 0) return []
  return [{ group: 'Requests', label: `Search requests for ${text}`, path: logPath(workspace, text) }]
}

/** The same in all workspaces: an id does not say whose it is. Of a key they are the requests that it has sent. */
export function platformGoals(text: string): readonly Goal[] {
  if (text === '' || /\s/.test(text)) return []
  const isKey = IDS[0]?.[0].test(text) === true
  const path = isKey ? pathOf(null, 'requests') + queryOf({ tab: 'log', key_id: text }) : logPath(null, text)
  return [{ group: 'Platform', label: `Search all workspaces for ${text}`, path }]
}
