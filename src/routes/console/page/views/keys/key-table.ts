import type { KeyAnswer, SessionAnswer } from '../../../api/answers.ts'
import { number, orNone, usd } from '../../format.ts'
import { html } from '../../html.ts'
import { Badge, FileBadge, StatusBadge } from '../../parts/badge.ts'
import { Button } from '../../parts/button.ts'
import { Bar } from '../../parts/progress.ts'
import { type Column, Table } from '../../parts/table.ts'
import { Time } from '../../parts/time.ts'
import { keyState } from './key-state.ts'

export function KeyTable(props: {
  readonly keys: readonly KeyAnswer[]
  readonly session: SessionAnswer
  readonly onRevoke: (key: KeyAnswer) => void
}) {
  const { keys, session, onRevoke } = props
  const nowMs = Date.now()
  const over = (key: KeyAnswer) => ['expired', 'revoked'].includes(keyState(key, nowMs))
  const columns: readonly Column<KeyAnswer>[] = [
    { head: 'Key', primary: true, cell: (key) => nameOf(key, session) },
    { head: 'State', cell: (key) => stateOf(key, nowMs) },
    { head: 'App', cell: ({ app }) => app },
    { head: 'Scopes', cell: ({ scopes }) => scopes.join(', ') },
    { head: 'Spent this month', cell: spentOf },
    { head: 'Rate limit', minor: true, cell: rateOf },
    {
      head: 'Last used',
      align: 'end',
      cell: ({ last_used_at: at }) => html`<${Time} at=${at} none="never" />`,
    },
    {
      head: 'Revoke',
      hideHead: true,
      narrow: true,
      align: 'end',
      cell: (key) =>
        over(key) || key.managed_by === 'file'
          ? null
          : html`<${Button}
                small
                kind="danger"
                label=${`Revoke ${key.name}`}
                onClick=${() => onRevoke(key)}
              >Revoke<//>`,
    },
  ]
  return html`<${Table}
    caption="Keys"
    columns=${columns}
    rows=${keys}
    rowKey=${({ id }: KeyAnswer) => id}
    dim=${over}
  />`
}

function nameOf({ id, name, prefix, managed_by: managedBy }: KeyAnswer, session: SessionAnswer) {
  return html`<span class="key-name">
    <span>
      ${name} ${id === session.key.id ? html`<${Badge} tone="accent">you<//>` : null}${' '}
      <${FileBadge} managedBy=${managedBy} />
    </span>
    <span class="mono small quiet" title=${id}>${prefix === null ? id : `${prefix}…`}</span>
  </span>`
}

function stateOf(key: KeyAnswer, nowMs: number) {
  const state = keyState(key, nowMs)
  if (state === 'revoked') {
    return html`<${StatusBadge} status="revoked" /><span class="quiet"><${Time} at=${key.revoked_at} /></span>`
  }
  const badge =
    state === 'ends soon'
      ? html`<${Badge} tone="warn">ends soon<//>`
      : html`<${StatusBadge} status=${state} />`
  return html`${badge}
    ${key.expires_at === null ? null : html`<span class="quiet">ends <${Time} at=${key.expires_at} /></span>`}`
}

/** A bar where there is a budget; the state may not answer, and then nothing is known. */
function spentOf({ budget_usd_per_month: budget, spent_usd: spent }: KeyAnswer) {
  if (budget === null) return orNone(spent, usd)
  if (spent === null) return html`<span class="quiet">of ${usd(budget)}; spending unavailable</span>`
  return html`<div class="key-budget">
    <${Bar} label="Spent this month" hideLabel value=${spent} max=${budget} text=${`${usd(spent)} of ${usd(budget)}`} />
  </div>`
}

function rateOf({ rate_limit: { requests_per_minute: perMinute, burst } }: KeyAnswer) {
  return html`<span class="nowrap" title=${`Burst: ${number(burst)}`}>${number(perMinute)} / min</span>`
}
