import type { SessionEnd, SessionFacts } from '../../../../contracts/live.ts'
import type {
  FailureAnswer,
  RequestAnswer,
  RequestsAnswer,
  VerdictAnswer,
} from '../../../server/answers/requests.ts'
import { api } from '../../api.ts'
import { Attempts, Outcome, ServedBy } from '../../components/attempts.ts'
import { Copy } from '../../components/copy.ts'
import { Facts, PageHead, Section } from '../../components/page-head.ts'
import { Loaded, Note } from '../../components/states.ts'
import { type Column, Table } from '../../components/table.ts'
import { Time } from '../../components/time.ts'
import { bytes, milliseconds, number, orNone, plural, took, usd } from '../../format.ts'
import { h } from '../../h.ts'
import { useLoad } from '../../load.ts'
import { apiPath, pathOf, queryOf } from '../../paths.ts'
import { leftWords } from '../routes/verdicts.ts'
import { CAPABILITY_NAMES, FEATURE_WORDS, wordFor } from '../routes/words.ts'
import { FoundInLog, SameRequestId, SIBLINGS_MAX } from './one-record.ts'
import { endpointName, JOB_RUN } from './request-list.ts'

/** One request: why it failed, its attempts on its time, and the facts of it. */
export function OneRequest(props: {
  readonly workspace: string
  /** ID of a record; or of a request, to show its newest record. */
  readonly id: string
  readonly search: string
}) {
  const { workspace, id, search } = props
  const place = apiPath`/workspaces/${workspace}/requests`
  const load = useLoad(
    (signal) => api.get<RequestAnswer>(place + apiPath`/${id}`, { signal }),
    [workspace, id],
  )
  // Kept no longer among the newest, or never: the ledger has all of them.
  if (load.state === 'failed' && load.error.status === 404) return h(FoundInLog, { workspace, id, search })
  const request = load.value
  const requestId = request?.id ?? null
  return [
    h(PageHead, {
      title: request ? titleOf(request) : 'Request',
      parent: { href: pathOf(workspace, 'requests') + search, label: 'Requests' },
      badges: request ? h(Outcome, { request }) : null,
      lead:
        requestId === null
          ? null
          : h(
              'span',
              { class: 'row' },
              h('code', null, requestId),
              h(Copy, { text: requestId, label: 'Copy request ID' }),
            ),
    }),
    h(Loaded<RequestAnswer>, {
      load,
      what: 'The request',
      rows: 8,
      render: (one: RequestAnswer) =>
        h(
          'div',
          { class: 'stack stack-loose' },
          one.replayed
            ? h(Note, null, 'Replayed from an earlier request with the same idempotency key.')
            : null,
          one.failure === null ? null : h(Failure, { request: one, failure: one.failure }),
          h(Section, { title: 'Attempts' }, h(Attempts, { request: one })),
          h(Section, { title: 'Details' }, h(RequestFacts, { workspace, request: one })),
          h(Siblings, { workspace, place, of: one, search }),
        ),
    }),
  ]
}

/** Other records with the id of this request: a submission and its runs, or requests that brought their own id. */
function Siblings(props: {
  readonly workspace: string
  readonly place: string
  readonly of: RequestAnswer
  readonly search: string
}) {
  const { workspace, place, of, search } = props
  const query = queryOf({ request_id: of.id, limit: SIBLINGS_MAX + 1 })
  const load = useLoad((signal) => api.get<RequestsAnswer>(place + query, { signal }), [place, of.record_id])
  const others = (load.value?.requests ?? []).filter(({ record_id: id }) => id !== of.record_id)
  return h(SameRequestId<RequestAnswer>, {
    columns: SIBLING_COLUMNS,
    rows: others,
    href: ({ record_id: id }: RequestAnswer) => pathOf(workspace, 'requests', id) + search,
  })
}

const SIBLING_COLUMNS: readonly Column<RequestAnswer>[] = [
  { head: 'Endpoint', primary: true, cell: (one) => h('span', { class: 'mono' }, titleOf(one)) },
  { head: 'Outcome', cell: (one) => h(Outcome, { request: one }) },
  { head: 'Time', align: 'end', cell: ({ at }) => h(Time, { at, exact: true }) },
]

function titleOf({ method, path }: RequestAnswer): string {
  return path === JOB_RUN ? endpointName(path) : `${method} ${path}`
}

/** All that is known of one request beside its attempts. */
function RequestFacts(props: { readonly workspace: string; readonly request: RequestAnswer }) {
  const { workspace, request } = props
  const { route, job_id: job, usage, live } = request
  const used = distinct(Object.entries(usage ?? {}).filter(([, count]) => count !== null && count !== 0))
  return h(Facts, {
    items: [
      ['Served by', h(ServedBy, { request })],
      ['Ended', h(Time, { at: request.at, exact: true })],
      ['Duration', took(request.milliseconds)],
      ['Gateway overhead', orNone(request.added_milliseconds, milliseconds)],
      ['App', request.app],
      ['Key', h('span', { title: request.key_id }, request.key_name ?? request.key_id)],
      [
        'Route',
        route === null ? 'none' : h('a', { class: 'mono', href: pathOf(workspace, 'routes', route) }, route),
      ],
      ['Route version', h('span', { class: 'mono' }, request.policy_version_id ?? '–')],
      ['Received', bytes(request.received_bytes)],
      ['Sent', bytes(request.sent_bytes)],
      ['Cost', orNone(request.cost_usd, usd)],
      ...(request.cache === null
        ? []
        : [['Speech cache', request.cache === 'hit' ? 'Hit' : 'Miss'] as const]),
      ...used.map(([name, count]) => [words(name), number(count ?? 0, decimalsOf(count ?? 0))] as const),
      ...(live === null ? [] : sessionFacts(live)),
      ...(job === null
        ? []
        : [['Job', h('a', { class: 'mono', href: pathOf(workspace, 'jobs', job) }, job)] as const]),
    ],
  })
}

/** Why a live session ended, in words. */
const ENDS: Readonly<Record<SessionEnd, string>> = {
  completed: 'the client, at its end',
  client_left: 'the client, which left',
  session_limit: 'the longest session allowed',
  drain: 'the node, which stopped',
  operator: 'a person, in the console',
  failed: 'an error',
}

function sessionFacts({ ended, switches, replayed_seconds: replayed, lost_seconds: lost }: SessionFacts) {
  return [
    ['Session ended by', ended === null ? '–' : wordFor(ENDS, ended)],
    ['Provider switches', number(switches)],
    ...(replayed === undefined ? [] : [['Audio replayed', `${number(replayed, 1)} s`] as const]),
    ...(lost === undefined ? [] : [['Audio lost', `${number(lost, 1)} s`] as const]),
  ] as const
}

/** Billable seconds that equal the seconds of the audio say nothing new. */
function distinct(used: readonly (readonly [string, number | null])[]) {
  const audio = used.find(([name]) => name === 'audio_seconds')?.[1]
  return used.filter(([name, count]) => name !== 'billable_audio_seconds' || count !== audio)
}

/** `billable_audio_seconds` as "Billable audio seconds". */
function words(name: string): string {
  const text = name.replaceAll('_', ' ')
  return text.charAt(0).toUpperCase() + text.slice(1)
}

function decimalsOf(count: number): number {
  return Number.isInteger(count) ? 0 : 2
}

/** Why a request failed: the field, what was missing, the limit, and what became of each entry. */
function Failure({ request, failure }: { readonly request: RequestAnswer; readonly failure: FailureAnswer }) {
  const facts = failureFacts(failure)
  const { entries, more_entries: more } = failure
  return h(
    Section,
    { title: 'Why it failed' },
    h('p', null, h('span', { class: 'mono' }, request.error), ': ', failure.message, '.'),
    facts.length === 0 ? null : h(Facts, { items: facts }),
    entries.length === 0
      ? null
      : h(Table<Row>, {
          caption: 'Verdict by entry',
          columns: COLUMNS,
          rows: entries.map((entry, place) => ({ ...entry, place })),
          rowKey: ({ place }: Row) => String(place),
        }),
    more === 0
      ? null
      : h('p', { class: 'quiet small' }, plural(more, 'more entry', 'more entries'), ' not shown.'),
  )
}

type Row = VerdictAnswer & { readonly place: number }

const COLUMNS: readonly Column<Row>[] = [
  {
    head: 'Entry',
    primary: true,
    cell: ({ provider, model }) => h('span', { class: 'mono' }, provider, '/', model),
  },
  { head: 'Route', cell: ({ route }) => h('span', { class: 'mono' }, route) },
  { head: 'Verdict', cell: (row) => (row.left === null ? 'Eligible' : `Skipped: ${leftWords(row)}`) },
]

function failureFacts({ param, rule, reason, missing, limit }: FailureAnswer) {
  const names = missing.map((name) =>
    wordFor({ ...CAPABILITY_NAMES, ...FEATURE_WORDS, ...OTHER_NAMES }, name),
  )
  return [
    ...(param === null ? [] : [['Field', [h('code', null, param), ruleWords(rule)]] as const]),
    ...(names.length === 0 ? [] : [['Missing', names.join(', ')] as const]),
    ...(limit === null ? [] : [['Limit', limitWords(limit)] as const]),
    ...(reason === null ? [] : [['Reason', reason.replaceAll('_', ' ')] as const]),
  ]
}

const OTHER_NAMES: Readonly<Record<string, string>> = {
  key: 'Budget of the key',
  workspace: 'Budget of the workspace',
}

/** Rules that go on with a value; the record leaves it out. */
const ENDINGS: Readonly<Record<string, string>> = {
  'must be one of': 'must be one of the documented values',
  'must be at least': 'is below the minimum',
  'must be at most': 'is above the maximum',
  'must be greater than': 'is below the minimum',
  'is over': 'is too long',
  'has over': 'has too many items',
}

function ruleWords(rule: string | null): string {
  return rule === null ? '' : ` ${wordFor(ENDINGS, rule)}`
}

function limitWords({ name, max, actual }: NonNullable<FailureAnswer['limit']>) {
  const write = (value: number) => (name.endsWith('_seconds') ? `${value} s` : bytes(value))
  const words = [
    ...(actual === null ? [] : [`${write(actual)} received`]),
    ...(max === null ? [] : [`${write(max)} allowed`]),
  ]
  return [h('code', null, name), words.length === 0 ? '' : `: ${words.join(', ')}`]
}
