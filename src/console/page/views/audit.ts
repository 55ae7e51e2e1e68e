import type { AuditAnswer, AuditListAnswer } from '../../server/answers/audit.ts'
import { api } from '../api.ts'
import { Button } from '../components/button.ts'
import { Switch } from '../components/choice.ts'
import { DateFields } from '../components/date-fields.ts'
import { TextInput } from '../components/field.ts'
import { PageHead } from '../components/page-head.ts'
import { useSearchText } from '../components/paged.ts'
import type { Dates } from '../components/range.ts'
import { EmptyState, ErrorNote, Loaded } from '../components/states.ts'
import { type Column, Table } from '../components/table.ts'
import { Time } from '../components/time.ts'
import { number } from '../format.ts'
import { h } from '../h.ts'
import { useAction, useLoad } from '../load.ts'
import { pathOf, queryOf } from '../paths.ts'
import { useKept, useQuery } from '../router.ts'
import type { ViewProps } from '../view.ts'

const WHEN: Column<AuditAnswer> = {
  head: 'When',
  narrow: true,
  cell: ({ at }) => h(Time, { at, exact: true }),
}

const WHAT: readonly Column<AuditAnswer>[] = [
  { head: 'Action', primary: true, cell: ({ action }) => h('span', { class: 'mono nowrap' }, action) },
  {
    head: 'Target',
    cell: (line) => {
      const place = placeOfLine(line)
      const { target } = line
      const shown = { class: 'cut cut-wide mono', title: target }
      return place === null ? h('span', shown, target) : h('a', { ...shown, href: place }, target)
    },
  },
  {
    head: 'Who',
    cell: (line) => {
      const { name, via } = byWhom(line)
      return [
        h('span', { title: line.by.key_id ?? line.by.subject }, name),
        h('span', { class: 'quiet' }, via),
      ]
    },
  },
  {
    head: 'Before → after',
    cell: (line) => {
      const hashes = hashesOf(line)
      const title = `${line.before ?? 'none'} → ${line.after ?? 'none'}`
      const changes = changesPath(line)
      return [
        changes !== null
          ? h('a', { href: changes, title }, 'View changes')
          : hashes === null
            ? null
            : h('span', { class: 'mono quiet', title }, hashes),
        line.detail === null ? null : h('span', { class: 'audit-detail' }, line.detail),
      ]
    },
  },
]

const WORKSPACE: Column<AuditAnswer> = {
  head: 'Workspace',
  cell: ({ workspace }) => workspace ?? h('span', { class: 'quiet' }, 'platform'),
}

/** Filters of the lines, as the API takes them. */
interface Asked {
  readonly workspace: string | null
  readonly playground: string | null
  readonly actor: string | null
  readonly target: string | null
  readonly from: string | null
  readonly to: string | null
}

type Ask = (
  more: Readonly<Record<string, string | number | null>>,
  signal?: AbortSignal,
) => Promise<AuditListAnswer>

/** Every change that was made, newest first; of all workspaces when none is given. */
export function AuditView({ workspace }: ViewProps) {
  const [query, setQuery] = useQuery()
  const days = { from: dayIn(query.get('from')), to: dayIn(query.get('to')) }
  const asked: Asked = {
    workspace,
    playground: query.get('playground') === 'true' ? 'true' : null,
    actor: query.get('actor'),
    target: query.get('target'),
    from: startOfDay(days.from),
    to: endOfDay(days.to),
  }
  const ask: Ask = (more, signal) =>
    api.get<AuditListAnswer>(`/audit${queryOf({ ...asked, ...more })}`, signal ? { signal } : {})
  const key = JSON.stringify(asked)
  const load = useLoad((signal) => ask({}, signal), [key])
  const what = workspace === null ? 'in all workspaces and on the platform' : `in ${workspace}`
  return [
    h(PageHead, {
      title: 'Audit',
      lead: `Who changed what ${what}, and when. Append-only.`,
      actions: [
        h(Export, { asked }),
        h(Button, { icon: 'refresh', onClick: load.reload, busy: load.busy }, 'Refresh'),
      ],
    }),
    h(
      'div',
      { class: 'filters', role: 'search' },
      h(Filter, { label: 'Who', name: 'actor', value: asked.actor, onChange: setQuery }),
      h(Filter, { label: 'Action or target', name: 'target', value: asked.target, onChange: setQuery }),
      h(DateFields, {
        type: 'date',
        dates: { from: days.from ?? '', to: days.to ?? '' },
        mayBeOpen: true,
        onChange: (changed: Partial<Dates>) => setQuery({ ...changed }),
      }),
      h(Switch, {
        label: 'Show playground keys',
        checked: asked.playground !== null,
        onChange: (on: boolean) => setQuery({ playground: on ? 'true' : null }),
      }),
    ),
    h(Loaded<AuditListAnswer>, {
      load,
      what: 'The audit log',
      rows: 12,
      render: (newest: AuditListAnswer) =>
        h(Lines, { key, name: key, newest, all: workspace === null, filtered: isFiltered(asked), ask }),
    }),
  ]
}

function isFiltered({ actor, target, from, to }: Asked): boolean {
  return [actor, target, from, to].some((one) => one !== null)
}

/** A text that is asked for shortly after it was typed. */
function Filter(props: {
  readonly label: string
  readonly name: string
  readonly value: string | null
  readonly onChange: (fields: Readonly<Record<string, string | null>>) => void
}) {
  const { label, name, value } = props
  const [text, setText] = useSearchText(value ?? '', (asked) => props.onChange({ [name]: asked }))
  return h(TextInput, { label, type: 'search', maxLength: 128, value: text, onInput: setText })
}

/** A day as a field for dates takes it; null: none, or an address says something else. */
function dayIn(text: string | null): string | null {
  return text !== null && /^\d{4}-\d\d-\d\d$/.test(text) ? text : null
}

/** Midnight, in the reader's time zone, at which a day begins; null: no day. */
function startOfDay(day: string | null): string | null {
  const at = new Date(`${day}T00:00:00`)
  return Number.isNaN(at.getTime()) ? null : String(at.getTime())
}

function endOfDay(day: string | null): string | null {
  const at = new Date(`${day}T23:59:59.999`)
  return Number.isNaN(at.getTime()) ? null : String(at.getTime())
}

/** All lines that the filters leave, as files. */
function Export({ asked }: { readonly asked: Asked }) {
  return EXPORTS.map(({ format, label }) =>
    h(
      'a',
      {
        key: format,
        class: 'button button-plain',
        href: `/console/api/audit${queryOf({ ...asked, format })}`,
        download: '',
        title: 'The newest 100,000 at most',
      },
      h('span', { class: 'button-text' }, label),
    ),
  )
}

const EXPORTS = [
  { format: 'csv', label: 'Export CSV' },
  { format: 'json', label: 'Export JSON' },
] as const

function Lines(props: {
  readonly name: string
  readonly newest: AuditListAnswer
  readonly all: boolean
  readonly filtered: boolean
  readonly ask: Ask
}) {
  const { name, newest, all, filtered, ask } = props
  const [older, setOlder] = useKept<Older | null>(`older ${name}`, null)
  const { lines: rows, next } = joinedAnswers(newest, older)
  const { run, busy, error } = useAction(async () => {
    if (next === null) return
    const page = await ask({ below: next })
    setOlder({ lines: [...rows, ...page.lines], next: page.next, top: rows[0]?.number ?? next })
  })
  if (rows.length === 0 && next === null)
    return filtered
      ? h(EmptyState, { title: 'No matching changes' })
      : h(
          EmptyState,
          { title: 'No changes yet' },
          h('p', null, 'Publishing a route, creating a key and changing a setting are all listed here.'),
        )
  const columns = all ? [WHEN, WORKSPACE, ...WHAT] : [WHEN, ...WHAT]
  return [
    rows.length === 0
      ? null
      : h(Table<AuditAnswer>, {
          caption: 'Changes, newest first',
          columns,
          rows,
          rowKey: ({ number: line }: AuditAnswer) => String(line),
        }),
    h(
      'div',
      { class: 'row table-more' },
      next === null
        ? h('span', { class: 'quiet small' }, 'End of list (', number(rows.length), ')')
        : h(Button, { onClick: run, busy }, rows.length === 0 ? 'Search further back' : 'Show older'),
      h(ErrorNote, { error }),
    ),
  ]
}

/** The name of the actor, and how they acted. */
export function byWhom({ by }: AuditAnswer): { readonly name: string; readonly via: string } {
  const via = { console: 'console', api: 'API', cli: 'command line' }[by.via]
  return { name: by.name === '' ? (by.key_id ?? 'unknown') : by.name, via }
}

/** Where the changes of a published version of a route are shown; null: the line is about something else. */
export function changesPath({ action, workspace, target, after }: AuditAnswer): string | null {
  const [kind, name] = targetParts(target)
  const published = action === 'route.publish' || action === 'route.rollback'
  if (!published || kind !== 'route' || name === '' || workspace === null || after === null) return null
  return pathOf(workspace, 'routes', name) + queryOf({ tab: 'history', hash: after })
}

/** Where the thing of a line is shown; null: nowhere. What was removed is not there any more. */
export function placeOfLine({ action, workspace, target }: AuditAnswer): string | null {
  const [kind, name] = targetParts(target)
  if (name === '' || action.endsWith('.remove') || action.endsWith('.discard')) return null
  if (kind === 'workspace') return pathOf(workspace, 'settings')
  if (kind === 'provider') return pathOf(workspace, 'providers', name)
  if (workspace === null) return null
  if (kind === 'route') return pathOf(workspace, 'routes', name)
  if (kind === 'app' || kind === 'purpose')
    return pathOf(workspace, 'apps') + queryOf({ q: kind === 'app' ? name : '' })
  if (kind === 'key') return pathOf(workspace, 'keys') + queryOf({ q: name })
  if (kind === 'job') return pathOf(workspace, 'jobs', name)
  if (kind === 'live') return pathOf(workspace, 'live')
  return null
}

/** `key` and `key_1` of `key/key_1`; of `app/acme/web` the app. */
function targetParts(target: string): readonly [kind: string, name: string] {
  const [kind = '', ...names] = target.split('/')
  return [kind, (kind === 'app' || kind === 'purpose' ? names.slice(1) : names).join('/')]
}

/** The hashes before and after the change, shortened; null: the line has none. */
export function hashesOf({ before, after }: AuditAnswer): string | null {
  if (before === null && after === null) return null
  return `${short(before)} → ${short(after)}`
}

function short(hash: string | null): string {
  return hash === null ? 'none' : hash.slice(0, 8)
}

interface Older extends AuditListAnswer {
  /** Number up to which no line is missing. */
  readonly top: number
}

/** Appends older lines, each once; none where there may be others between them and the newest. */
export function joinedAnswers(newest: AuditListAnswer, older: Older | null): AuditListAnswer {
  if (older === null || newest.next === null || newest.next > older.top) return newest
  const last = newest.lines.at(-1)?.number ?? Number.POSITIVE_INFINITY
  return { lines: [...newest.lines, ...older.lines.filter((line) => line.number < last)], next: older.next }
}
