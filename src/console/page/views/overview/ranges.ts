import { useMemo } from 'preact/hooks'
import type { UsageAnswer, UsagePercentiles, UsageRow, UsageSums } from '../../../server/answers/usage.ts'
import { api } from '../../api.ts'
import { Bars, type Series } from '../../components/bars.ts'
import { Button } from '../../components/button.ts'
import { Chart, useCharts } from '../../components/chart.ts'
import { Section } from '../../components/page-head.ts'
import {
  axisOfSteps,
  OVERVIEW_STEPS,
  type OverviewSpan,
  spanOf,
  stepMsOf,
  stepName,
  stepsIn,
  timeText,
} from '../../components/range.ts'
import { EmptyState, Loaded, Note } from '../../components/states.ts'
import { type Column, Table } from '../../components/table.ts'
import { formatCount, milliseconds, orNone, percent } from '../../format.ts'
import { h } from '../../h.ts'
import { useLoad } from '../../load.ts'
import { NONE, pathOf, queryOf } from '../../paths.ts'
import { navigate } from '../../router.ts'
import { OverviewHead } from './head.ts'
import { Kinds, logOf } from './kinds.ts'

/** Answers about a time: about its calls, without jobs and live sessions, and about all three. */
export interface RangeAnswers {
  /** By outcome, step by step. */
  readonly outcomes: UsageAnswer
  /** Failed calls by status, step by step. */
  readonly failures: UsageAnswer
  /** The same by code, over the whole time. */
  readonly codes: UsageAnswer
  /** Calls that succeeded, over the whole time. */
  readonly answered: UsageAnswer
  /** Calls, jobs and live sessions, step by step. */
  readonly kinds: UsageAnswer
}

interface Place {
  readonly workspace: string | null
  readonly span: OverviewSpan
}

/** The figures of a day, a week or a month, out of the usage ledger. */
export function RangeOverview({ workspace, span }: Place) {
  const range = { ...spanOf(span, Date.now()), step: OVERVIEW_STEPS[span] }
  const from = timeText(range.fromMs)
  const to = timeText(range.toMs)
  useCharts()
  const load = useLoad(
    (signal) => askRanges({ workspace, from, to, step: range.step }, signal),
    [workspace, from, to],
  )
  return [
    h(
      OverviewHead,
      { workspace, chosen: span },
      h(Button, { icon: 'refresh', onClick: load.reload, busy: load.busy }, 'Refresh'),
    ),
    h(Loaded<RangeAnswers>, {
      load,
      what: 'The overview',
      rows: 10,
      render: (answers: RangeAnswers) => h(Whole, { answers, workspace, span }),
    }),
  ]
}

async function askRanges(
  { workspace, from, to, step }: Readonly<Record<'from' | 'to' | 'step', string>> & Pick<Place, 'workspace'>,
  signal: AbortSignal,
): Promise<RangeAnswers> {
  const all = { workspace, from, to, sort: 'calls' }
  const calls = { ...all, kind: 'call' }
  const failed = { ...calls, outcome: 'error' }
  const [outcomes, failures, codes, answered, kinds] = await Promise.all(
    [
      { ...calls, step, by: 'outcome', figures: 'calls,total_ms,first_ms' },
      { ...failed, step, by: 'status', figures: 'calls' },
      { ...failed, by: 'error_code,status', limit: 20, figures: 'calls' },
      { ...calls, outcome: 'ok', figures: 'calls' },
      { ...all, step, by: 'kind', figures: 'calls,errors,cost_usd,audio_seconds' },
    ].map((query) => api.get<UsageAnswer>(`/usage${queryOf(query)}`, { signal })),
  )
  if (!outcomes || !failures || !codes || !answered || !kinds) throw new Error('each question has an answer')
  return { outcomes, failures, codes, answered, kinds }
}

function Whole({ answers, workspace, span }: Place & { readonly answers: RangeAnswers }) {
  const { outcomes, codes, kinds } = answers
  const steps = useMemo(() => rangeSteps(answers), [answers])
  if (kinds.total.calls === 0) return h(Nothing, { isRecorded: kinds.is_recorded })
  const usage = (more: Fields) => pathOf(workspace, 'usage') + queryOf({ range: span, kind: 'call', ...more })
  const zoom = (more: Fields) => (atMs: number) =>
    pathOf(workspace, 'usage') +
    queryOf({ from: timeText(atMs), to: timeText(atMs + stepMsOf(steps)), ...more })
  const { step, times } = steps
  return [
    kinds.is_recorded
      ? null
      : h(
          Note,
          { tone: 'warn' },
          'This node doesn’t record usage: newer calls are missing here. To record it, set LARKWAY_USAGE=true.',
        ),
    outcomes.total.calls === 0 ? null : h(Calls, { answers, steps, workspace, usage, zoom }),
    h(Kinds, { answer: kinds, workspace, span, step, times, zoom: zoom({ by: 'kind', show: 'calls' }) }),
    h(Codes, { codes, total: outcomes.total, usage }),
  ]
}

/** The figures and charts of calls. */
function Calls(props: {
  readonly answers: RangeAnswers
  readonly steps: Steps
  readonly workspace: string | null
  readonly usage: (more: Fields) => string
  readonly zoom: (more: Fields) => (atMs: number) => string
}) {
  const { answers, steps, workspace, usage, zoom } = props
  const common = { step: steps.step, times: steps.times, onOpen: navigate }
  return [
    h(Numbers, { answers, steps, workspace, usage }),
    h(
      'div',
      { class: 'overview-charts' },
      h(Bars, {
        ...common,
        title: 'Requests',
        unit: `per ${steps.step}`,
        series: steps.requests,
        format: formatCount,
        href: zoom({ kind: 'call', by: workspace === null ? 'workspace' : 'app', show: 'calls' }),
      }),
      h(Bars, {
        ...common,
        title: 'Errors',
        unit: `per ${steps.step}`,
        series: steps.errors,
        format: formatCount,
        href: zoom({ kind: 'call', by: 'error_code', show: 'errors', outcome: 'error' }),
      }),
      h(Latency, { title: 'Latency', unit: 'request to end of answer', steps, values: steps.totalMs }),
      h(Latency, { title: 'Time to first byte', unit: 'first token or audio', steps, values: steps.firstMs }),
    ),
  ]
}

function Nothing({ isRecorded }: { readonly isRecorded: boolean }) {
  if (isRecorded)
    return h(
      EmptyState,
      { title: 'No requests in this time' },
      h('p', null, 'Requests appear here within two minutes of their end.'),
    )
  return h(
    EmptyState,
    { title: 'Usage isn’t recorded' },
    h(
      'p',
      null,
      'Longer times need it. Set ',
      h('code', null, 'LARKWAY_USAGE=true'),
      ' on every node to record it.',
    ),
  )
}

type Fields = Readonly<Record<string, string>>
type Steps = ReturnType<typeof rangeSteps>

/** Figures of each step, for the charts. */
export function rangeSteps({ outcomes, failures }: Pick<RangeAnswers, 'outcomes' | 'failures'>) {
  const step = outcomes.step === 'hour' ? ('hour' as const) : ('day' as const)
  const times = stepsIn({ fromMs: Date.parse(outcomes.from), toMs: Date.parse(outcomes.to), step })
  const place = new Map(times.map((time, at) => [time, at]))
  const sumsOf = (rows: readonly UsageRow[], isMeant: (row: UsageRow) => boolean) => {
    const values = new Array<number>(times.length).fill(0)
    for (const row of rows) {
      const at = place.get(Date.parse(row.time ?? ''))
      if (at !== undefined && isMeant(row)) values[at] = (values[at] ?? 0) + row.calls
    }
    return values
  }
  const series = (label: string, tone: Series['tone'], values: readonly number[]): Series => ({
    label,
    tone,
    values,
  })
  const client = sumsOf(failures.data, (row) => isStatus(row, 4))
  const server = sumsOf(failures.data, (row) => isStatus(row, 5))
  const broken = sumsOf(failures.data, (row) => !isStatus(row, 4) && !isStatus(row, 5))
  const good = sumsOf(outcomes.data, ({ outcome }) => outcome !== 'error')
  const latencies = new Map(
    outcomes.data.filter(({ outcome }) => outcome === 'ok').map((row) => [Date.parse(row.time ?? ''), row]),
  )
  const latency = (read: (sums: UsageSums) => UsagePercentiles | null) =>
    times.map((time) => {
      const row = latencies.get(time)
      return row === undefined ? null : read(row)
    })
  const brokenOff = sum(broken)
  const errors = [series('4xx', 'warn', client), series('5xx', 'bad', server)]
  if (brokenOff > 0) errors.push(series('Broken off', 4, broken))
  return {
    step,
    times,
    requests: [series('Succeeded', 1, good), ...errors],
    errors,
    clientErrors: sum(client),
    serverErrors: sum(server),
    brokenOff,
    totalMs: latency(({ total_ms }) => total_ms),
    firstMs: latency(({ first_ms }) => first_ms),
  }
}

/** True if a call failed with a status of this class. Others were answered with 200, and broke off. */
function isStatus({ status }: UsageRow, hundreds: number): boolean {
  return typeof status === 'number' && Math.floor(status / 100) === hundreds
}

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0)

function Numbers(props: {
  readonly answers: RangeAnswers
  readonly steps: Steps
  readonly workspace: string | null
  readonly usage: (more: Fields) => string
}) {
  const { answers, steps, workspace, usage } = props
  const { calls } = answers.outcomes.total
  const { total_ms: total, first_ms: first } = answers.answered.total
  const share = (errors: number) => percent(errors / calls)
  const failed = (status: string) =>
    logOf(workspace, answers.outcomes, { kind: 'call', outcome: 'error', status })
  const { brokenOff } = steps
  const figures: readonly (readonly [name: string, value: string, beside: string, href: string | null])[] = [
    ['Requests', formatCount(calls), 'without jobs and sessions', usage({ show: 'calls' })],
    ['Server errors', share(steps.serverErrors), `5xx: ${formatCount(steps.serverErrors)}`, failed('5xx')],
    ['Client errors', share(steps.clientErrors), `4xx: ${formatCount(steps.clientErrors)}`, failed('4xx')],
    ...(brokenOff === 0
      ? []
      : [['Broken off', share(brokenOff), `after 200: ${formatCount(brokenOff)}`, failed('2xx')] as const]),
    ['Latency', orNone(total?.p50, milliseconds), percentileWords(total), null],
    ['Time to first byte', orNone(first?.p50, milliseconds), percentileWords(first), null],
  ]
  return h(
    'dl',
    { class: 'overview-numbers' },
    figures.map(([name, value, beside, href]) =>
      h(
        'div',
        { class: 'overview-number', key: name },
        h('dt', null, name),
        h(
          'dd',
          null,
          h(
            'div',
            { class: 'overview-value' },
            href === null
              ? value
              : h('a', { class: 'overview-href', href }, value, h('span', { class: 'hidden' }, ` ${name}`)),
          ),
          h('div', { class: 'overview-beside' }, beside),
        ),
      ),
    ),
  )
}

function percentileWords(one: UsagePercentiles | null): string {
  if (one === null) return 'p50'
  const [p95, p99] = [one.p95, one.p99].map((ms) => milliseconds(ms).replace(' ', '\u00a0'))
  return `p50; p95\u00a0${p95}, p99\u00a0${p99}`
}

function Latency(props: {
  readonly title: string
  readonly unit: string
  readonly steps: Steps
  readonly values: readonly (UsagePercentiles | null)[]
}) {
  const { title, unit, steps, values } = props
  // A step is drawn at its middle, below its bars.
  const halfMs = stepMsOf(steps) / 2
  const data = useMemo(
    () => ({
      times: steps.times.map((time) => (time + halfMs) / 1000),
      lines: (['p50', 'p95', 'p99'] as const).map((label) => ({
        label,
        values: values.map((one) => one?.[label] ?? null),
      })),
    }),
    [values],
  )
  if (values.every((one) => one === null)) return null
  return h(Chart, {
    title,
    unit,
    data,
    format: milliseconds,
    tones: [1, 2, 4],
    when: {
      span: 'succeeded requests',
      name: (seconds: number) => stepName(seconds * 1000 - halfMs, steps.step),
      axis: () => axisOfSteps(steps.times, steps.step),
    },
  })
}

interface CodeRow {
  readonly key: string
  readonly code: string | null
  readonly status: number | null
  readonly calls: number
  readonly share: number
}

const CODE_COLUMNS: readonly Column<CodeRow>[] = [
  { head: 'Code', primary: true, cell: ({ code }) => h('span', { class: 'mono' }, code ?? 'unknown') },
  { head: 'Status', narrow: true, cell: ({ status }) => status ?? '–' },
  { head: 'Requests', align: 'end', cell: ({ calls }) => formatCount(calls) },
  { head: 'Of all requests', align: 'end', cell: ({ share }) => percent(share) },
]

/** Errors by code, the most frequent first. */
function Codes(props: {
  readonly codes: UsageAnswer
  readonly total: UsageSums
  readonly usage: (more: Fields) => string
}) {
  const { codes, total, usage } = props
  if (codes.data.length === 0) return null
  const rows = codes.data.map(({ error_code, status, calls }): CodeRow => {
    const code = typeof error_code === 'string' ? error_code : null
    const shown = typeof status === 'number' ? status : null
    return { key: `${code} ${shown}`, code, status: shown, calls, share: calls / total.calls }
  })
  return h(
    Section,
    { title: 'Errors by code' },
    h(Table<CodeRow>, {
      caption: 'Errors by code',
      columns: CODE_COLUMNS,
      rows,
      rowKey: ({ key }: CodeRow) => key,
      href: ({ code, status }: CodeRow) =>
        usage({
          ...{ by: 'provider', show: 'errors', outcome: 'error' },
          ...{ error_code: code ?? NONE, status: status === null ? NONE : String(status) },
        }),
    }),
  )
}
