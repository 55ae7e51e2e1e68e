import type {
  LogRecordAnswer,
  LogRowAnswer,
  LogRowsAnswer,
  OneLogRecordAnswer,
} from '../../../server/answers/log.ts'
import { api } from '../../api.ts'
import { Button } from '../../components/button.ts'
import { Copy } from '../../components/copy.ts'
import { type FactItems, Facts, PageHead, Section } from '../../components/page-head.ts'
import { EmptyState, Loaded, Note } from '../../components/states.ts'
import { type Column, Table, type TableProps } from '../../components/table.ts'
import { Time } from '../../components/time.ts'
import { bytes, milliseconds, number, orNone, took, usd } from '../../format.ts'
import { h } from '../../h.ts'
import { useKeys } from '../../keys.ts'
import { useLoad } from '../../load.ts'
import { pathOf, queryOf } from '../../paths.ts'
import { navigate } from '../../router.ts'
import { LogOutcome } from './log.ts'
import { logFields, logQuery, readLogFilter, recordTitle } from './log-filter.ts'
import { Phases } from './phases.ts'
import { Tries } from './tries.ts'

/** Records of the same request that are shown beside one of them. */
export const SIBLINGS_MAX = 20

/** One record of the ledger: why it failed, what was tried, where its time went; and the way to the next one. */
export function OneRecord(props: {
  /** Null: it is looked at in the log of all of them. */
  readonly workspace: string | null
  readonly id: string
  readonly search: string
}) {
  const { workspace, id, search } = props
  const filter = readLogFilter(new URLSearchParams(search), workspace)
  const load = useLoad(
    (signal) => {
      const path = logQuery(`/log/${encodeURIComponent(id)}`, logFields(workspace, filter, Date.now()))
      return api.get<OneLogRecordAnswer>(path, { signal })
    },
    [workspace, id],
  )
  const record = load.value?.record ?? null
  const log = search === '' && workspace !== null ? '?tab=log' : search
  return [
    h(PageHead, {
      title: record === null ? 'Request' : recordTitle(record),
      parent: { href: pathOf(workspace, 'requests') + log, label: 'Requests' },
      badges: record === null ? null : h(LogOutcome, { record }),
      lead: record === null ? null : h(Id, { id: record.request_id, what: 'request ID' }),
      actions: h(Steps, { workspace, search: log, beside: load.value }),
    }),
    h(Loaded<OneLogRecordAnswer>, {
      load,
      what: 'The request',
      rows: 8,
      render: ({ record: one }: OneLogRecordAnswer) =>
        h(
          'div',
          { class: 'stack stack-loose' },
          one.replayed
            ? h(Note, null, 'Replayed from an earlier request with the same idempotency key.')
            : null,
          one.error_code === null ? null : h(Failure, { record: one }),
          h(Section, { title: 'Attempts' }, h(Tries, { record: one })),
          h(Phases, { record: one }),
          h(Section, { title: 'Details' }, h(RecordFacts, { record: one, isOfAll: workspace === null })),
          h(Siblings, { workspace, of: one, search: log }),
        ),
    }),
  ]
}

function Id({ id, what }: { readonly id: string; readonly what: string }) {
  return h('span', { class: 'row' }, h('code', null, id), h(Copy, { text: id, label: `Copy ${what}` }))
}

/** To the records next to this one in the list: buttons, and the keys J and K. */
function Steps(props: {
  readonly workspace: string | null
  readonly search: string
  readonly beside: OneLogRecordAnswer | null
}) {
  const { workspace, search, beside } = props
  // Back leads to the list, however many were looked at.
  const go = (id: string | null | undefined) => () => {
    if (id) navigate(pathOf(workspace, 'requests', 'log', id) + search, { replace: true })
  }
  const [newer, older] = [go(beside?.newer), go(beside?.older)]
  useKeys({ k: newer, j: older })
  const step = (label: string, hint: string, id: string | null | undefined, onClick: () => void) =>
    h(Button, { small: true, disabled: !id, onClick, label: `${label} request (${hint})` }, label)
  return [step('Newer', 'K', beside?.newer, newer), step('Older', 'J', beside?.older, older)]
}

/** A request that is not among the newest: the record of it in the ledger, if there is one. */
export function FoundInLog(props: {
  readonly workspace: string | null
  readonly id: string
  readonly search: string
}) {
  const { workspace, id, search } = props
  const load = useLoad(
    (signal) => api.get<LogRowsAnswer>(`/log-rows${queryOf({ workspace, id, limit: 1 })}`, { signal }),
    [workspace, id],
  )
  const found = load.value?.records[0]
  if (found !== undefined) return h(OneRecord, { workspace, id: found.record_id, search })
  return h(Loaded<LogRowsAnswer>, {
    load,
    what: 'The request',
    rows: 8,
    render: () => [
      h(PageHead, {
        title: 'Request',
        parent: { href: pathOf(workspace, 'requests') + search, label: 'Requests' },
      }),
      h(
        EmptyState,
        { title: 'Request not found' },
        h('code', null, id),
        ' isn’t among the newest requests, nor in the log. New requests reach the log within two minutes.',
      ),
    ],
  })
}

function Failure({ record }: { readonly record: LogRecordAnswer }) {
  const { error_code: code, error_param: param, error_message: message } = record
  return h(
    Section,
    { title: 'Why it failed' },
    h('p', null, h('span', { class: 'mono' }, code), message === null ? '.' : [': ', message, '.']),
    param === null ? null : h(Facts, { items: [['Field', h('code', null, param)]] }),
  )
}

/** @param isOfAll it says whose the record is */
function RecordFacts({ record, isOfAll }: { readonly record: LogRecordAnswer; readonly isOfAll: boolean }) {
  const { workspace, route, job_id: job, session_id: session } = record
  return h(Facts, {
    items: [
      ...(isOfAll ? [['Workspace', h('a', { href: pathOf(workspace) }, workspace)] as const] : []),
      ['Started', h(Time, { at: record.started_at, exact: true })],
      ['Ended', h(Time, { at: record.ended_at, exact: true })],
      ['Duration', took(record.total_ms)],
      ['Receiving the body', orNone(record.body_ms, milliseconds)],
      ['Waiting for providers', orNone(record.upstream_ms, milliseconds)],
      ['Time to first byte', orNone(record.first_ms, milliseconds)],
      ['App', record.app],
      ['Key', h('span', { title: record.key_id }, record.key_name ?? record.key_id)],
      ...some('End user', record.end_user),
      ...some('Purpose', record.purpose),
      [
        'Route',
        route === null ? 'none' : h('a', { class: 'mono', href: pathOf(workspace, 'routes', route) }, route),
      ],
      ['Route version', h('span', { class: 'mono' }, record.policy_version_id ?? '–')],
      ...some('Region', record.region),
      ['Cost', [orNone(record.cost_usd, usd), record.estimated ? ' (estimated)' : '']],
      ...unitsOf(record),
      ['Received', bytes(record.received_bytes)],
      ['Sent', bytes(record.sent_bytes)],
      ...(record.cache === null ? [] : [['Speech cache', record.cache === 'hit' ? 'Hit' : 'Miss'] as const]),
      ...(job === null
        ? []
        : [['Job', h('a', { class: 'mono', href: pathOf(workspace, 'jobs', job) }, job)] as const]),
      ...(session === null ? [] : [['Live session', h('code', null, session)] as const]),
      ...traceFact(record),
      ['Record', h('code', null, record.record_id)],
    ],
  })
}

function some(label: string, value: string | null): FactItems {
  return value === null ? [] : [[label, value]]
}

function traceFact({ trace_id: id, trace_url: url }: LogRecordAnswer): FactItems {
  if (id === null) return []
  if (url === null) return [['Trace', h(Id, { id, what: 'trace ID' })]]
  return [['Trace', h('a', { class: 'mono', href: url, target: '_blank', rel: 'noopener noreferrer' }, id)]]
}

/** Billable seconds that equal the seconds of the audio say nothing new. */
function unitsOf(record: LogRecordAnswer): FactItems {
  const { audio_seconds: audio, billable_audio_seconds: billable } = record
  const units: readonly (readonly [string, number | null])[] = [
    ['Audio seconds', audio],
    ['Billable audio seconds', billable === audio ? null : billable],
    ['Video seconds', record.video_seconds],
    ['Input tokens', record.input_tokens],
    ['Output tokens', record.output_tokens],
    ['Characters', record.characters],
    ['Images', record.images],
    ['Provider credits', record.credits],
  ]
  return units.flatMap(([label, count]) =>
    count === null || count === 0 ? [] : [[label, number(count, Number.isInteger(count) ? 0 : 2)] as const],
  )
}

/** Other records of its workspace with the id of this request: callers may repeat one. */
function Siblings(props: {
  readonly workspace: string | null
  readonly of: LogRecordAnswer
  readonly search: string
}) {
  const { workspace, of, search } = props
  const query = queryOf({ workspace: of.workspace, id: of.request_id, limit: SIBLINGS_MAX + 1 })
  const load = useLoad((signal) => api.get<LogRowsAnswer>(`/log-rows${query}`, { signal }), [of.record_id])
  const others = (load.value?.records ?? []).filter(({ record_id: id }) => id !== of.record_id)
  return h(SameRequestId<LogRowAnswer>, {
    columns: SIBLING_COLUMNS,
    rows: others,
    href: ({ record_id: id }: LogRowAnswer) => pathOf(workspace, 'requests', 'log', id) + search,
  })
}

/** Other records with the id of a request; nothing without any. */
export function SameRequestId<Row extends { readonly record_id: string }>(
  props: Pick<TableProps<Row>, 'columns' | 'rows' | 'href'>,
) {
  if (props.rows.length === 0) return null
  return h(
    Section,
    { title: 'Same request ID', lead: 'Other records with this request ID.' },
    h(Table<Row>, {
      ...props,
      caption: 'Same request ID',
      rows: props.rows.slice(0, SIBLINGS_MAX),
      rowKey: ({ record_id: id }: Row) => id,
    }),
  )
}

const SIBLING_COLUMNS: readonly Column<LogRowAnswer>[] = [
  { head: 'Endpoint', primary: true, cell: (one) => h('span', { class: 'mono' }, recordTitle(one)) },
  { head: 'Outcome', cell: (one) => h(LogOutcome, { record: one }) },
  { head: 'Time', align: 'end', cell: ({ ended_at: at }) => h(Time, { at, exact: true }) },
]
