import { useState } from 'preact/hooks'
import type { AuditAnswer } from '../../server/api/answers.ts'
import { api } from '../api.ts'
import { Button } from '../components/button.ts'
import { Switch } from '../components/choice.ts'
import { PageHead } from '../components/page-head.ts'
import { EmptyState, ErrorNote, Loaded } from '../components/states.ts'
import { type Column, Table } from '../components/table.ts'
import { Time } from '../components/time.ts'
import { h } from '../h.ts'
import { useAction, useLoad } from '../load.ts'
import { queryOf } from '../paths.ts'
import { useKept, useQuery } from '../router.ts'
import type { ViewProps } from '../view.ts'

/** How many the API answers at once; fewer are the last. */
const PAGE_LINES = 100

interface Answer {
  readonly lines: readonly AuditAnswer[]
}

const WHEN: Column<AuditAnswer> = {
  head: 'When',
  narrow: true,
  cell: ({ at }) => h(Time, { at, exact: true }),
}

const WHAT: readonly Column<AuditAnswer>[] = [
  { head: 'Action', primary: true, cell: ({ action }) => h('span', { class: 'mono nowrap' }, action) },
  {
    head: 'Target',
    cell: ({ target }) => h('span', { class: 'cut cut-wide mono', title: target }, target),
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
      return [
        hashes === null ? null : h('span', { class: 'mono quiet', title }, hashes),
        line.detail === null ? null : h('span', null, line.detail),
      ]
    },
  },
]

const WORKSPACE: Column<AuditAnswer> = {
  head: 'Workspace',
  cell: ({ workspace }) => workspace ?? h('span', { class: 'quiet' }, 'platform'),
}

/** Every change that was made, newest first; of all workspaces when none is given. */
export function AuditView({ workspace }: ViewProps) {
  const [query, setQuery] = useQuery()
  const playground = query.get('playground') === 'true' ? 'true' : null
  const lines = (below: number | null, signal?: AbortSignal) =>
    api.get<Answer>(`/audit${queryOf({ workspace, below, playground })}`, signal ? { signal } : {})
  const load = useLoad((signal) => lines(null, signal), [workspace, playground])
  const what = workspace === null ? 'in all workspaces and on the platform' : `in ${workspace}`
  return [
    h(PageHead, {
      title: 'Audit',
      lead: `Who changed what ${what}, and when. Append-only.`,
      actions: h(Button, { icon: 'refresh', onClick: load.reload, busy: load.busy }, 'Refresh'),
    }),
    h(
      'div',
      { class: 'filters' },
      h(Switch, {
        label: 'Show playground keys',
        checked: playground !== null,
        onChange: (on: boolean) => setQuery({ playground: on ? 'true' : null }),
      }),
    ),
    h(Loaded<Answer>, {
      load,
      what: 'The audit log',
      rows: 12,
      render: ({ lines: newest }: Answer) =>
        h(Lines, {
          key: playground ?? '',
          newest,
          all: workspace === null,
          more: (below: number) => lines(below),
        }),
    }),
  ]
}

function Lines(props: {
  readonly newest: readonly AuditAnswer[]
  readonly all: boolean
  readonly more: (below: number) => Promise<Answer>
}) {
  const { newest, all, more } = props
  const [older, setOlder] = useKept<readonly AuditAnswer[]>('older', [])
  const [ended, setEnded] = useState(newest.length < PAGE_LINES)
  const rows = joined(newest, older)
  const last = rows.at(-1)
  const { run, busy, error } = useAction(async () => {
    if (!last) return
    const { lines } = await more(last.number)
    setEnded(lines.length < PAGE_LINES)
    setOlder(joined(rows, lines))
  })
  if (!last)
    return h(
      EmptyState,
      { title: 'No changes yet' },
      h('p', null, 'Publishing a route, creating a key and changing a setting are all listed here.'),
    )
  const columns = all ? [WHEN, WORKSPACE, ...WHAT] : [WHEN, ...WHAT]
  return [
    h(Table<AuditAnswer>, {
      caption: 'Changes, newest first',
      columns,
      rows,
      rowKey: ({ number }: AuditAnswer) => String(number),
    }),
    h(
      'div',
      { class: 'row table-more' },
      ended
        ? h('span', { class: 'quiet small' }, 'End of list')
        : h(Button, { onClick: run, busy }, 'Show older'),
      h(ErrorNote, { error }),
    ),
  ]
}

/** The name of the actor, and how they acted. */
export function byWhom({ by }: AuditAnswer): { readonly name: string; readonly via: string } {
  const via = { console: 'console', api: 'API', cli: 'command line' }[by.via]
  return { name: by.name === '' ? (by.key_id ?? 'unknown') : by.name, via }
}

/** The hashes before and after the change, shortened; null: the line has none. */
export function hashesOf({ before, after }: AuditAnswer): string | null {
  if (before === null && after === null) return null
  return `${short(before)} → ${short(after)}`
}

function short(hash: string | null): string {
  return hash === null ? 'none' : hash.slice(0, 8)
}

/** Appends older lines; lines in both are kept once. */
export function joined(newer: readonly AuditAnswer[], older: readonly AuditAnswer[]): readonly AuditAnswer[] {
  const last = newer.at(-1)?.number ?? Number.POSITIVE_INFINITY
  return [...newer, ...older.filter(({ number }) => number < last)]
}
