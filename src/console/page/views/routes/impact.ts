import type { RouteFields } from '../../../../gateway/catalog/file.ts'
import type { EntryName, ImpactAnswer } from '../../../server/answers/routes.ts'
import { api } from '../../api.ts'
import { Button, Icon } from '../../components/button.ts'
import { Spinner } from '../../components/progress.ts'
import { ErrorNote } from '../../components/states.ts'
import { type Column, Table } from '../../components/table.ts'
import { Time } from '../../components/time.ts'
import { number, percent, plural, usd } from '../../format.ts'
import { h } from '../../h.ts'
import { useLoad } from '../../load.ts'
import { apiPath } from '../../paths.ts'

export interface ImpactProps {
  readonly workspace: string
  readonly route: string
  /** The route as it is on the screen; null: its draft. */
  readonly fields: RouteFields | null
}

/** Recent requests under the draft: how many move, are refused, and what they would cost. */
export function Impact({ workspace, route, fields }: ImpactProps) {
  const asked = JSON.stringify(fields)
  const load = useLoad(
    async (signal) => {
      const path = apiPath`/workspaces/${workspace}/routes/${route}/impact`
      const answer = await api.post<ImpactAnswer>(path, fields === null ? {} : { fields }, { signal })
      return { asked, answer }
    },
    [workspace, route],
  )
  if (load.state === 'loading') return h(Spinner, { label: 'Comparing recent requests' })
  if (load.state === 'failed')
    return h(
      'div',
      { class: 'stack stack-tight' },
      h(ErrorNote, { error: load.error, what: 'Not compared' }),
      h('div', null, h(Button, { small: true, icon: 'refresh', onClick: load.reload }, 'Try again')),
    )
  return h(
    'div',
    { class: 'stack stack-tight routes-impact', 'aria-busy': load.busy },
    h(Outcome, { answer: load.value.answer }),
    load.value.asked !== asked
      ? h(
          'div',
          { class: 'row' },
          h('span', { class: 'small quiet' }, 'The draft changed since.'),
          h(Button, { small: true, icon: 'refresh', onClick: load.reload, busy: load.busy }, 'Compare again'),
        )
      : null,
    load.value.asked !== asked ? h(ErrorNote, { error: load.error, what: 'Not compared' }) : null,
  )
}

function Outcome({ answer }: { readonly answer: ImpactAnswer }) {
  const { issues, requests, from, to, refused, moves, cost } = answer
  if (issues.length > 0) return h('p', { class: 'small' }, 'Fix the errors of the draft to compare.')
  const trouble = refused.newly > 0
  return [
    h(
      'p',
      { class: 'routes-impact-line', role: 'status', 'data-newly-refused': refused.newly },
      h(Icon, { name: trouble ? 'alert' : 'check' }),
      h('strong', null, impactWords(answer)),
    ),
    requests === 0
      ? null
      : h(
          'p',
          { class: 'small quiet' },
          plural(requests, 'recorded request'),
          ' from ',
          h(Time, { at: from }),
          ' to ',
          h(Time, { at: to }),
          '.',
        ),
    moves.length + refused.reasons.length === 0
      ? null
      : h(
          'ul',
          { class: 'routes-left small' },
          moves.map(({ from: before, to: after, requests: count }, index) =>
            h(
              'li',
              { key: `m${index}` },
              h('span', null, number(count), ' from ', h(Name, before), ' to ', h(Name, after)),
            ),
          ),
          refused.reasons.map(({ code, message, requests: count }, index) =>
            h(
              'li',
              { key: `r${index}` },
              h('span', null, number(count), ' refused with ', h('code', null, code)),
              h('span', { class: 'quiet' }, message),
            ),
          ),
        ),
    cost.requests === 0 || cost.published_usd + cost.draft_usd === 0
      ? null
      : h(
          'p',
          { class: 'small' },
          'Cost ',
          usd(cost.published_usd),
          ' → ',
          usd(cost.draft_usd),
          cost.unknown === 0 ? '' : `, without ${plural(cost.unknown, 'request')} of unknown cost`,
          '.',
        ),
    requests === 0 ? null : h(Shares, { answer }),
    h(Limits, { answer }),
  ]
}

type Row = ImpactAnswer['entries'][number]

function Shares({ answer: { entries, requests } }: { readonly answer: ImpactAnswer }) {
  const share = (count: number) => `${number(count)} (${percent(count / requests)})`
  const columns: readonly Column<Row>[] = [
    { head: 'Tried first', primary: true, cell: (row) => h('span', { class: 'mono small' }, nameOf(row)) },
    { head: 'Live', align: 'end', cell: ({ published }) => share(published) },
    { head: 'Draft', align: 'end', cell: ({ draft }) => share(draft) },
  ]
  return h(Table<Row>, { caption: 'Entries by version', columns, rows: entries, rowKey: nameOf })
}

/** Limits of the figures. */
function Limits({ answer }: { readonly answer: ImpactAnswer }) {
  const { coverage, left_out, unrecorded, uncertain } = answer
  const sampled = coverage !== null && coverage.recorded < coverage.requests
  const lines = [
    'Health is left out: every entry counts as available. Tokens and durations are taken as they were measured.',
    'Weighted routes draw again for each request, the same way for both versions.',
    ...(sampled
      ? [
          `Only some requests are recorded: ${number(coverage.recorded)} of ` +
            `${number(coverage.requests)} in the last hour.`,
        ]
      : []),
    ...(uncertain === 0
      ? []
      : [
          `${plural(uncertain, 'request')} had fields whose values are not recorded: ${unrecorded
            .map(({ field, requests }) => `${field} (${number(requests)})`)
            .join(', ')}.`,
        ]),
    ...leftOutWords(left_out),
  ]
  return h(
    'details',
    { class: 'more' },
    h('summary', null, 'How this is counted'),
    h(
      'ul',
      { class: 'issues small' },
      lines.map((line) => h('li', { key: line }, line)),
    ),
  )
}

/** Requests that the comparison is without, and why. */
export function leftOutWords({
  not_recorded,
  app_gone,
  answered_without_provider,
}: ImpactAnswer['left_out']): readonly string[] {
  return [
    not_recorded === 0 ? '' : `${plural(not_recorded, 'request')} failed before an entry was selected.`,
    app_gone === 0 ? '' : `${plural(app_gone, 'request')} came from apps that no longer exist.`,
    answered_without_provider === 0
      ? ''
      : `${plural(answered_without_provider, 'request was', 'requests were')} answered without a provider.`,
  ].filter((line) => line !== '')
}

/** "12 of 1,000 requests would move to deepgram/nova-3, 3 would be refused, cost −8 %." */
export function impactWords({ requests, moves, refused, cost }: ImpactAnswer): string {
  if (requests === 0) return 'No recorded requests to compare with yet.'
  const moved = moves.reduce((sum, move) => sum + move.requests, 0)
  const targets = new Set(moves.map(({ to }) => nameOf(to)))
  const served = refused.published - (refused.draft - refused.newly)
  const to = targets.size === 1 ? ` to ${[...targets][0]}` : ''
  const counts: readonly (readonly [count: number, does: string])[] = [
    [moved, `move${to}`],
    [refused.newly, 'be refused'],
    [served, 'no longer be refused'],
  ]
  const parts = counts.filter(([count]) => count > 0)
  const of = `of ${plural(requests, 'request')} `
  const said = parts.map(([count, does], index) => `${number(count)} ${index === 0 ? of : ''}would ${does}`)
  const costs = costWords(cost)
  const all = [
    ...(said.length === 0
      ? [`${requests === 1 ? 'The request' : `All ${number(requests)} requests`} would go as now`]
      : said),
    ...(costs === null ? [] : [costs]),
  ]
  return `${all.join(', ')}.`
}

/** Null: it is not known. */
function costWords({ requests, published_usd, draft_usd }: ImpactAnswer['cost']): string | null {
  if (requests === 0) return null
  if (published_usd === draft_usd) return draft_usd === 0 ? null : 'cost unchanged'
  if (published_usd === 0) return `cost ${usd(draft_usd)} instead of nothing`
  const change = draft_usd / published_usd - 1
  return `cost ${change < 0 ? '−' : '+'}${percent(Math.abs(change))}`
}

function Name(name: EntryName) {
  return h('span', { class: 'mono' }, nameOf(name))
}

const nameOf = ({ provider, model }: EntryName) => `${provider}/${model}`
