import { useMemo } from 'preact/hooks'
import type { UsageAnswer, UsageRow } from '../../../server/answers/usage.ts'
import { Bars, type Series } from '../../components/bars.ts'
import { Section } from '../../components/page-head.ts'
import type { OverviewSpan } from '../../components/range.ts'
import { type Column, Table } from '../../components/table.ts'
import { formatCount, minutes, percent, usd } from '../../format.ts'
import { h } from '../../h.ts'
import { pathOf, queryOf } from '../../paths.ts'
import { navigate } from '../../router.ts'

/** Kinds of records, and what they are called. */
const KINDS = {
  call: { label: 'Calls', tone: null },
  job: { label: 'Jobs', tone: 1 },
  session: { label: 'Live sessions', tone: 2 },
} as const
type Kind = keyof typeof KINDS

interface KindRow {
  readonly kind: Kind
  readonly label: string
  readonly records: number
  readonly failed: number
  readonly audioMinutes: number
  readonly costUsd: number
}

/** Sums of each kind of record over the whole time, without kinds that have no record. */
export function kindRows(data: readonly UsageRow[]): readonly KindRow[] {
  return (Object.keys(KINDS) as Kind[]).flatMap((kind): KindRow[] => {
    const own = data.filter((row) => row.kind === kind)
    const sum = (read: (row: UsageRow) => number) => own.reduce((total, row) => total + read(row), 0)
    const records = sum(({ calls }) => calls)
    if (records === 0) return []
    return [
      {
        kind,
        label: KINDS[kind].label,
        records,
        failed: sum(({ errors }) => errors),
        audioMinutes: sum(({ audio_seconds: seconds }) => seconds) / 60,
        costUsd: sum(({ cost_usd: cost }) => cost),
      },
    ]
  })
}

/** Jobs and live sessions of each step: those that ended well, by kind, and those that failed. */
export function workSeries(data: readonly UsageRow[], times: readonly number[]): readonly Series[] {
  const place = new Map(times.map((time, at) => [time, at]))
  const valuesOf = (isMeant: (row: UsageRow) => boolean, read: (row: UsageRow) => number) => {
    const values = new Array<number>(times.length).fill(0)
    for (const row of data) {
      const at = place.get(Date.parse(row.time ?? ''))
      if (at !== undefined && isMeant(row)) values[at] = (values[at] ?? 0) + read(row)
    }
    return values
  }
  const good = (['job', 'session'] as const).map((kind): Series => {
    const { label, tone } = KINDS[kind]
    const values = valuesOf(
      (row) => row.kind === kind,
      ({ calls, errors }) => calls - errors,
    )
    return { label, tone, values }
  })
  const failed = valuesOf(
    ({ kind }) => kind === 'job' || kind === 'session',
    ({ errors }) => errors,
  )
  return [...good, { label: 'Failed', tone: 'bad' as const, values: failed }].filter(({ values }) =>
    values.some((value) => value > 0),
  )
}

interface KindsProps {
  /** By kind, step by step. */
  readonly answer: UsageAnswer
  readonly workspace: string | null
  readonly span: OverviewSpan
  readonly step: 'hour' | 'day'
  readonly times: readonly number[]
  /** Where a step of the chart leads. */
  readonly zoom: (atMs: number) => string
}

/** Calls, jobs and live sessions beside one another: how many, how many failed, their audio and what they cost. */
export function Kinds({ answer, workspace, span, step, times, zoom }: KindsProps) {
  const rows = useMemo(() => kindRows(answer.data), [answer])
  const series = useMemo(() => workSeries(answer.data, times), [answer])
  const columns = useMemo(() => kindColumns(workspace, answer), [workspace, answer])
  if (rows.length === 0) return null
  const by = workspace === null ? 'workspace' : 'app'
  return h(
    Section,
    { title: 'Calls, jobs and live sessions' },
    h(Table<KindRow>, {
      caption: 'Calls, jobs and live sessions',
      columns,
      rows,
      rowKey: ({ kind }: KindRow) => kind,
      href: ({ kind }: KindRow) =>
        pathOf(workspace, 'usage') + queryOf({ range: span, by, show: 'calls', kind }),
    }),
    series.length === 0
      ? null
      : h(
          'div',
          { class: 'overview-work' },
          h(Bars, {
            title: 'Jobs and live sessions',
            unit: `per ${step}`,
            step,
            times,
            series,
            format: formatCount,
            href: zoom,
            onOpen: navigate,
          }),
        ),
  )
}

/** The log of what an answer counted: of its very time, and with what the playground sends. */
export function logOf(
  workspace: string | null,
  { from, to }: Pick<UsageAnswer, 'from' | 'to'>,
  fields: Readonly<Record<string, string>>,
): string {
  return pathOf(workspace, 'requests') + queryOf({ tab: 'log', from, to, playground: 'true', ...fields })
}

function kindColumns(
  workspace: string | null,
  answer: Pick<UsageAnswer, 'from' | 'to'>,
): readonly Column<KindRow>[] {
  const log = (fields: Readonly<Record<string, string>>) => logOf(workspace, answer, fields)
  return [
    { head: 'Kind', primary: true, cell: ({ label }) => label },
    { head: 'Count', align: 'end', cell: ({ records }) => formatCount(records) },
    {
      head: 'Failed',
      align: 'end',
      cell: ({ kind, label, failed }) =>
        failed === 0
          ? '0'
          : h(
              'a',
              { href: log({ kind, outcome: 'error' }) },
              formatCount(failed),
              h('span', { class: 'hidden' }, ` failed in the log of ${label.toLowerCase()}`),
            ),
    },
    { head: 'Error rate', align: 'end', cell: ({ failed, records }) => percent(failed / records) },
    {
      head: 'Audio',
      align: 'end',
      cell: ({ audioMinutes: audio }) => (audio === 0 ? '–' : minutes(audio)),
    },
    { head: 'Cost', align: 'end', cell: ({ costUsd }) => usd(costUsd) },
  ]
}
