import { useMemo } from 'preact/hooks'
import type { UsageAnswer } from '../../../server/answers/usage.ts'
import { api } from '../../api.ts'
import { Bars } from '../../components/bars.ts'
import { Button, Icon, LinkButton } from '../../components/button.ts'
import { DateFields } from '../../components/date-fields.ts'
import { Select } from '../../components/field.ts'
import { PageHead, RangeLinks } from '../../components/page-head.ts'
import type { Dates, SpanName } from '../../components/range.ts'
import { isAskable, rangeOf, spanLabel, spanOf, stepMsOf, timeText } from '../../components/range.ts'
import { EmptyState, Loaded, Note } from '../../components/states.ts'
import { type Column, Table } from '../../components/table.ts'
import { moment, percent, zone } from '../../format.ts'
import { h } from '../../h.ts'
import { useLoad } from '../../load.ts'
import { pathOf } from '../../paths.ts'
import { navigate } from '../../router.ts'
import type { ViewProps } from '../../view.ts'
import { type Answers, chartOf, type GroupRow, groupRows, valueName } from './answer.ts'
import {
  chartStep,
  DIMENSIONS,
  type Dimension,
  dimensionsFor,
  dimensionsOf,
  drilled,
  inSentence,
  isApplied,
  isDimension,
  isGrouping,
  isSecond,
  MEASURE_NAMES,
  MEASURES,
  type MeasureName,
  pageQuestions,
  questionPath,
  requestsQuery,
  requestsWords,
  stateOf,
  type UsageState,
  usageAddress,
  without,
} from './question.ts'

const RANGES: readonly SpanName[] = ['24h', 'today', 'yesterday', '7d', '30d', 'month', 'last-month', '90d']
const TOO_LONG = 'Choose at most 1,100 days.'

interface Shown {
  readonly state: UsageState
  readonly workspace: string | null
  readonly hrefOf: (state: UsageState) => string
}

/** Usage and its cost, of one workspace or of all, by any dimension. */
export function UsageView({ workspace, query }: ViewProps) {
  const state = stateOf(query, workspace, Date.now())
  const hrefOf = (next: UsageState) => pathOf(workspace, 'usage') + usageAddress(next)
  const shown: Shown = { state, workspace, hrefOf }
  const load = useLoad(
    (signal) => askUsage(shown, signal),
    [questionPath(state, workspace, { step: 'none', by: dimensionsOf(state) })],
  )
  const csv = questionPath(state, workspace, {
    step: chartStep(state),
    by: dimensionsOf(state),
    format: 'csv',
  })
  return [
    h(PageHead, {
      title: workspace === null ? 'Platform usage' : 'Usage',
      lead: 'Finished calls, jobs and live sessions, and what they cost. Days are in UTC.',
      actions: [
        h(Button, { icon: 'refresh', onClick: load.reload, busy: load.busy }, 'Refresh'),
        h(LinkButton, { href: pathOf(workspace, 'requests') + requestsQuery(state) }, requestsWords(state)),
        h(
          'a',
          {
            class: 'button button-plain',
            href: `/console/api${csv}`,
            download: '',
            title: `Every group by ${chartStep(state)}, 100,000 rows at most`,
          },
          h(Icon, { name: 'download' }),
          h('span', { class: 'button-text' }, 'Download CSV'),
        ),
      ],
    }),
    h(Controls, shown),
    h(Filters, { ...shown, names: load.value?.table.names ?? {} }),
    h(Loaded<Answers>, {
      load,
      what: 'The usage',
      rows: 10,
      render: (answers: Answers) => h(Whole, { ...shown, answers }),
    }),
  ]
}

async function askUsage({ state, workspace }: Shown, signal: AbortSignal): Promise<Answers> {
  const paths = pageQuestions(state, workspace, Date.now())
  const get = (path: string) => api.get<UsageAnswer>(path, { signal })
  const [table, parts, whole, before] = await Promise.all([
    get(paths.table),
    get(paths.parts),
    get(paths.whole),
    paths.before === null ? null : get(paths.before),
  ])
  return { table, parts, whole, before }
}

function Controls({ state, workspace, hrefOf }: Shown) {
  const { range, by, and } = state
  const go = (next: UsageState) => navigate(hrefOf(next))
  // An unfinished date is no place to come back to.
  const setDates = (changed: Partial<Dates>) =>
    navigate(hrefOf({ ...state, range: rangeOf(range, changed) }), { replace: true })
  return h(
    'div',
    { class: 'filters usage-controls' },
    h(RangeLinks, {
      chosen: range.name,
      ranges: RANGES.map((name) => ({
        name,
        label: spanLabel(name),
        href: hrefOf({ ...state, range: spanOf(name, Date.now()) }),
      })),
    }),
    h(Select<Dimension>, {
      label: 'Group by',
      value: by,
      options: dimensionsFor(workspace).map((value) => ({
        value,
        label: DIMENSIONS[value],
        disabled: !isGrouping(value, state),
      })),
      onChange: (value: string) => {
        if (!isDimension(value)) return
        const keeps = and !== null && isSecond(and, { ...state, by: value })
        go({ ...state, by: value, and: keeps ? and : null })
      },
    }),
    h(Select<Dimension | ''>, {
      label: 'And by',
      value: and ?? '',
      options: [
        { value: '', label: 'Nothing else' },
        ...dimensionsFor(workspace)
          .filter((value) => value !== by)
          .map((value) => ({ value, label: DIMENSIONS[value], disabled: !isSecond(value, state) })),
      ],
      onChange: (value: string) => go({ ...state, and: isDimension(value) ? value : null }),
    }),
    h(
      'details',
      { class: 'more usage-dates', open: range.name === 'custom' },
      h('summary', null, 'Custom dates'),
      h(
        'div',
        { class: 'usage-dates-row' },
        h(DateFields, {
          type: 'date',
          dates: { from: timeText(range.fromMs).slice(0, 10), to: timeText(range.toMs - 1).slice(0, 10) },
          issueOf: (dates: Dates) => {
            const { fromMs, toMs } = rangeOf(range, dates)
            return isAskable(fromMs, toMs) ? null : TOO_LONG
          },
          onChange: setDates,
        }),
      ),
    ),
  )
}

/** Filters of the records shown; each can be removed. */
function Filters({ state, hrefOf, names }: Shown & { readonly names: UsageAnswer['names'] }) {
  if (state.filters.length === 0) return null
  return h(
    'ul',
    { class: 'usage-filters', 'aria-label': 'Filters' },
    state.filters.map((filter) => {
      const [name, value] = filter
      return h(
        'li',
        { key: name },
        h(
          'a',
          { class: 'usage-filter', href: hrefOf(without(state, name)) },
          h('span', { class: 'quiet' }, DIMENSIONS[name], ': '),
          h('span', { class: 'cut' }, valueName(name, value, names)),
          isApplied(state, filter) ? null : h('span', { class: 'quiet small' }, ' not applied to end users'),
          h(Icon, { name: 'close' }),
          h('span', { class: 'hidden' }, 'Remove this filter'),
        ),
      )
    }),
    state.filters.length > 1
      ? h(
          'li',
          null,
          h(LinkButton, { small: true, kind: 'quiet', href: hrefOf({ ...state, filters: [] }) }, 'Clear all'),
        )
      : null,
  )
}

function Whole({ state, workspace, hrefOf, answers }: Shown & { readonly answers: Answers }) {
  const { table } = answers
  const measure = MEASURES[state.measure]
  const chart = useMemo(() => chartOf(answers, state.by, measure), [answers])
  const rows = useMemo(() => groupRows(answers, dimensionsOf(state), measure), [answers])
  const columns = useMemo(() => groupColumns(state, table), [answers])
  const completeMs = Date.parse(table.complete_until)
  if (table.total.calls === 0)
    return h(Nothing, {
      answer: table,
      workspace,
      filtered: state.filters.some((filter) => isApplied(state, filter)),
    })
  const zoom = (atMs: number) => {
    const range = { ...state.range, name: 'custom', fromMs: atMs, toMs: atMs + stepMsOf(chart) }
    return hrefOf({ ...state, range })
  }
  return [
    table.is_recorded ? null : h(Note, { tone: 'warn' }, NOT_RECORDED),
    h(Totals, { state, hrefOf, total: table.total, before: answers.before?.total ?? null }),
    h(Bars, {
      title: measure.label,
      unit: `by ${inSentence(state.by)}, per ${chart.step}`,
      step: chart.step,
      times: chart.times,
      series: chart.series,
      format: measure.format,
      ...(canZoom(state) ? { href: zoom, onOpen: navigate } : {}),
    }),
    h('h2', { class: 'usage-title' }, 'By ', dimensionsOf(state).map(inSentence).join(' and ')),
    h(Table<GroupRow>, {
      caption: `Usage by ${dimensionsOf(state).map(inSentence).join(' and ')}`,
      columns,
      rows,
      rowKey: ({ key }: GroupRow) => key,
      href: ({ kind, values }: GroupRow) => (kind === 'group' ? hrefOf(drilled(state, values)) : null),
    }),
    h(
      'p',
      { class: 'quiet small usage-until' },
      `Complete until ${moment(completeMs)} ${zone(completeMs)}; newer calls appear within two minutes.`,
    ),
  ]
}

/** A single hour, or what is only known by day, is as near as one gets. */
function canZoom(state: UsageState): boolean {
  const { range } = state
  return range.toMs - range.fromMs > stepMsOf(range) && chartStep(state) === range.step
}

const NOT_RECORDED =
  'This node doesn’t record usage: newer calls are missing here. To record it, set LARKWAY_USAGE=true on every node.'

function Nothing(props: {
  readonly answer: UsageAnswer
  readonly workspace: string | null
  readonly filtered: boolean
}) {
  const { answer, workspace, filtered } = props
  if (!answer.is_recorded)
    return h(
      EmptyState,
      { title: 'Usage isn’t recorded' },
      h('p', null, 'Set ', h('code', null, 'LARKWAY_USAGE=true'), ' on every node to record it.'),
    )
  return h(
    EmptyState,
    {
      title: filtered ? 'No usage matches these filters' : 'No usage in this time',
      action: filtered
        ? h(LinkButton, { href: pathOf(workspace, 'usage') }, 'Clear filters')
        : h(LinkButton, { href: `${pathOf(workspace, 'usage')}?range=90d` }, 'Last 90 days'),
    },
    h('p', null, 'Calls appear here within two minutes of their end.'),
  )
}

/** The sums of all groups; each is a link that shows it in the chart. */
function Totals(props: {
  readonly state: UsageState
  readonly hrefOf: Shown['hrefOf']
  readonly total: UsageAnswer['total']
  /** The sums of the period before; null: there is none. */
  readonly before: UsageAnswer['total'] | null
}) {
  const { state, hrefOf, total, before } = props
  return h(
    'ul',
    { class: 'usage-totals', 'aria-label': 'Totals' },
    MEASURE_NAMES.map((name) => {
      const { label, read, format } = MEASURES[name]
      const earlier = before === null ? null : read(before)
      const isChosen = name === state.measure
      return h(
        'li',
        { key: name },
        h(
          'a',
          {
            class: 'usage-total',
            href: hrefOf({ ...state, measure: name }),
            'aria-current': isChosen ? 'true' : undefined,
          },
          h('span', { class: 'usage-total-name' }, label),
          h('span', { class: 'usage-total-value' }, format(read(total))),
          name === 'errors'
            ? h('span', { class: 'usage-total-beside' }, percent(total.errors / Math.max(1, total.calls)))
            : null,
          earlier === null || earlier === 0
            ? null
            : [' ', h('span', { class: 'usage-total-beside' }, `${format(earlier)} before`)],
        ),
      )
    }),
  )
}

function groupColumns(state: UsageState, { total }: UsageAnswer): readonly Column<GroupRow>[] {
  const { measure } = state
  const measures = MEASURE_NAMES.filter((name) => name === measure || MEASURES[name].read(total) > 0)
  const figures = measures.map((name: MeasureName): Column<GroupRow> => {
    const { label, read, format } = MEASURES[name]
    return { head: label, align: 'end', cell: ({ sums }) => (read(sums) === 0 ? '–' : format(read(sums))) }
  })
  const rate: Column<GroupRow> = {
    head: 'Error rate',
    align: 'end',
    cell: ({ sums }) => percent(sums.calls === 0 ? 0 : sums.errors / sums.calls),
  }
  const earlier: Column<GroupRow> = {
    head: `${MEASURES[measure].label} before`,
    align: 'end',
    cell: ({ before, sums }) => h(Earlier, { before, now: MEASURES[measure].read(sums), measure }),
  }
  return [
    ...dimensionsOf(state).map(
      (name, at): Column<GroupRow> => ({
        head: DIMENSIONS[name],
        primary: at === 0,
        cell: ({ kind, labels, values }) => {
          const value = values[at] ?? null
          return kind === 'group' && value !== null
            ? h('span', { class: 'usage-group', title: value }, labels[at])
            : h('span', { class: kind === 'total' ? undefined : 'quiet' }, labels[at] ?? '')
        },
      }),
    ),
    {
      head: `Share of ${MEASURES[measure].label.toLowerCase()}`,
      align: 'end',
      cell: ({ kind, share }) => h(Share, { share, bar: kind === 'group' }),
    },
    ...figures,
    earlier,
    ...(measures.includes('errors') ? [rate] : []),
  ]
}

/** The measure in the period before, and how it has changed since. */
function Earlier(props: {
  readonly before: number | null
  readonly now: number
  readonly measure: MeasureName
}) {
  const { before, now, measure } = props
  if (before === null) return h('span', { class: 'quiet' }, 'Unknown')
  if (before === 0) return h('span', { class: 'quiet' }, '–')
  const change = now / before - 1
  const sign = change > 0 ? '+' : change < 0 ? '−' : ''
  return [
    MEASURES[measure].format(before),
    ' ',
    h('span', { class: 'small quiet' }, `${sign}${percent(Math.abs(change))}`),
  ]
}

function Share({ share, bar }: { readonly share: number | null; readonly bar: boolean }) {
  if (share === null) return h('span', { class: 'quiet' }, '–')
  return h(
    'span',
    { class: 'usage-share' },
    bar
      ? h(
          'span',
          { class: 'usage-share-track', 'aria-hidden': 'true' },
          h('span', { class: 'usage-share-fill', style: { inlineSize: `${share * 100}%` } }),
        )
      : null,
    percent(share),
  )
}
