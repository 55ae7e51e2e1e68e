import type { ComponentChildren } from 'preact'
import { compact, duration, milliseconds, number, orNone, percent, usd } from '../../format.ts'
import { html } from '../../html.ts'
import { newest, recent } from './history.ts'
import type { Seen } from './live.ts'

const MINUTE_MS = 60_000
const ERRORS_MS = 5 * MINUTE_MS
const ERRORS_WARN = 0.01
const ERRORS_BAD = 0.05
/** A job that waits longer than that is worth a look. */
const WAIT_WARN_SECONDS = 300
const MEMORY_WARN = 0.8

/** The state of things in a line of numbers. */
export function Numbers({ seen, platform }: { readonly seen: Seen; readonly platform: boolean }) {
  const { answer, steps } = seen
  const { perSecond } = recent(steps, MINUTE_MS)
  const { clientErrorShare, serverErrorShare } = recent(steps, ERRORS_MS)
  const p50 = newest(steps, (step) => step.added_p50_ms)
  const p95 = newest(steps, (step) => step.added_p95_ms)
  return html`<dl class="overview-numbers">
    <${One} name="Requests" value=${orNone(perSecond, rate)} beside="per second, last minute" />
    <${One}
      name="Errors"
      value=${orNone(serverErrorShare, percent)}
      beside="5xx, last 5 min"
      title="Requests that failed in the gateway or at its providers"
      tone=${toneOf(serverErrorShare ?? 0, ERRORS_WARN, ERRORS_BAD)}
    />
    <${One}
      name="Client errors"
      value=${orNone(clientErrorShare, percent)}
      beside="4xx, last 5 min"
      title="Requests rejected because of what the caller sent"
    />
    <${One}
      name="Gateway overhead"
      value=${orNone(p50, milliseconds)}
      beside=${p95 === null ? 'p50' : `p50; p95 ${milliseconds(p95)}`}
    />
    <${Queue} queue=${answer.queue} />
    ${platform ? html`<${Memory} seen=${seen} />` : null}
    ${
      answer.credits_usd === null
        ? null
        : html`<${One}
            name="Credits"
            value=${usd(answer.credits_usd)}
            beside="credit balance"
            tone=${answer.credits_usd < 0 ? 'bad' : null}
          />`
    }
  </dl>`
}

/** The queue is one for all workspaces, so that operators see it only. */
function Queue({ queue }: { readonly queue: Seen['answer']['queue'] }) {
  if (!queue) return null
  const { ready, delayed, oldest_seconds: oldest } = queue
  const words = [`${number(ready)} ready`, `${number(delayed)} scheduled`]
  if (ready > 0) words.push(`oldest ${duration(oldest)}`)
  return html`<${One}
    name="Jobs waiting"
    value=${compact(ready + delayed)}
    beside=${words.join(', ')}
    title="Across all workspaces"
    tone=${oldest > WAIT_WARN_SECONDS ? 'warn' : null}
  />`
}

/** Use of the fullest node. */
function Memory({ seen }: { readonly seen: Seen }) {
  const { nodes } = seen.answer
  if (nodes === null) return null
  const share = Math.max(
    0,
    ...nodes.map((node) => node.memory_used_bytes / Math.max(1, node.memory_limit_bytes)),
  )
  const flying = nodes.reduce((sum, node) => sum + node.in_flight, 0)
  return html`<${One}
      name="In flight"
      value=${number(flying)}
      beside=${nodes.length === 1 ? 'on 1 node' : `on ${number(nodes.length)} nodes`}
    />
    <${One}
      name="Memory budget"
      value=${nodes.length === 0 ? '–' : percent(share)}
      beside="peak across nodes"
      tone=${toneOf(share, MEMORY_WARN, 1)}
    />`
}

function One(props: {
  readonly name: string
  readonly value: ComponentChildren
  readonly beside: string
  readonly tone?: 'warn' | 'bad' | null
  readonly title?: string
}) {
  const { name, value, beside, tone, title } = props
  return html`<div class="overview-number" title=${title}>
    <dt>${name}</dt>
    <dd>
      <div class=${`overview-value ${tone ? `overview-${tone}` : ''}`}>${value}</div>
      <div class="overview-beside">${beside}</div>
    </dd>
  </div>`
}

/** Requests per second: 0.05, 12.3, 1.23k. */
export function rate(value: number): string {
  return value > 0 && value < 0.005 ? '< 0.01' : compact(Number(value.toFixed(2)))
}

function toneOf(value: number, warn: number, bad: number): 'warn' | 'bad' | null {
  return value >= bad ? 'bad' : value >= warn ? 'warn' : null
}
