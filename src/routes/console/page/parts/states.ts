import type { ComponentChildren } from 'preact'
import { type ApiError, adviceFor } from '../api-error.ts'
import { html } from '../html.ts'
import type { Load } from '../load.ts'
import { Button } from './button.ts'
import { Copy } from './copy.ts'
import { Icon } from './icon.ts'

/** Nothing is there yet: what would be, and what to do next. */
export function EmptyState(props: {
  readonly title: string
  readonly action?: ComponentChildren
  readonly children?: ComponentChildren
}) {
  return html`<div class="empty">
    <p class="empty-title">${props.title}</p>
    ${props.children ? html`<div class="empty-text">${props.children}</div>` : null}
    ${props.action ? html`<div class="empty-action">${props.action}</div>` : null}
  </div>`
}

/** Something could not be loaded: what, why, and a way to try again. */
export function ErrorState(props: {
  readonly error: ApiError
  /** "The routes". */
  readonly what: string
  readonly retry?: () => void
  readonly busy?: boolean
}) {
  const { error, what, retry, busy = false } = props
  return html`<div class="error-state" role="alert">
    <p class="empty-title"><${Icon} name="alert" />${what} couldn’t be loaded</p>
    <p class="empty-text">${sentence(error.message)} ${adviceFor(error, true)}</p>
    <${RequestId} id=${error.requestId} />
    ${
      retry
        ? html`<div class="empty-action"><${Button} icon="refresh" onClick=${retry} busy=${busy}>Try again<//></div>`
        : null
    }
  </div>`
}

/** What went wrong with something that was asked for, beside where it was; nothing while `error` is null. */
export function Fault({ error, what }: { readonly error: ApiError | null; readonly what?: string }) {
  if (!error) return null
  // The only one may be the message itself.
  const faults = error.faults.filter((fault) => fault !== error.message)
  return html`<div class="note note-bad" role="alert">
    <${Icon} name="alert" />
    <div class="note-text">
      <p>${what ? `${what}: ${error.message}` : sentence(error.message)} ${adviceFor(error)}</p>
      ${faults.length > 0 ? html`<ul class="faults">${faults.map((fault) => html`<li>${fault}</li>`)}</ul>` : null}
      <${RequestId} id=${error.requestId} />
    </div>
  </div>`
}

/** A remark that is always seen: `info`, `warn`, `bad` or `ok`. */
export function Note(props: {
  readonly tone?: 'info' | 'ok' | 'warn' | 'bad'
  readonly children: ComponentChildren
}) {
  const { tone = 'info', children } = props
  const icon = tone === 'ok' ? 'check' : tone === 'info' ? null : 'alert'
  return html`<div class=${`note note-${tone}`}>
    ${icon ? html`<${Icon} name=${icon} />` : null}<div class="note-text">${children}</div>
  </div>`
}

/** Grey lines where something will be: `rows` of them, each as high as a row of a table. */
export function Skeleton({
  rows = 4,
  label = 'Loading',
}: {
  readonly rows?: number
  readonly label?: string
}) {
  return html`<div class="skeleton" role="status">
    <span class="hidden">${label}</span>
    ${Array.from({ length: rows }, (_, index) => html`<span class="skeleton-row" key=${index}></span>`)}
  </div>`
}

/**
 * Draws what was loaded, and until then a skeleton; says so when it failed, and when it may be old. A skeleton of as
 * many rows as are to come keeps the page still.
 */
export function Loaded<Value>(props: {
  readonly load: Load<Value>
  /** "The routes". */
  readonly what: string
  readonly rows?: number
  readonly skeleton?: ComponentChildren
  readonly render: (value: Value) => ComponentChildren
}) {
  const { load, what, rows = 4, skeleton, render } = props
  if (load.state === 'loading')
    return skeleton ?? html`<${Skeleton} rows=${rows} label=${`${what}: loading`} />`
  if (load.state === 'failed')
    return html`<${ErrorState} error=${load.error} what=${what} retry=${load.reload} busy=${load.busy} />`
  return html`${load.error ? html`<${Stale} load=${load} what=${what} />` : null}${render(load.value)}`
}

const AWAY = 'Can’t reach the server. Showing the last known data.'

function Stale({ load, what }: { readonly load: Load<unknown>; readonly what: string }) {
  const { error } = load
  const isAway = error?.code === 'UNREACHABLE'
  const advice = error?.retryAfterMs == null ? '' : ` ${adviceFor(error, true)}`
  return html`<div class="note note-warn" role="status">
    <${Icon} name="alert" />
    <div class="note-text">${isAway ? AWAY : `${what} may be out of date: ${error?.message ?? ''}.${advice}`}</div>
    <${Button} small onClick=${load.reload} busy=${load.busy}>Try again<//>
  </div>`
}

function RequestId({ id }: { readonly id: string | null }) {
  if (id === null) return null
  return html`<p class="request-id">Request <code>${id}</code> <${Copy} text=${id} label="Copy request ID" /></p>`
}

/** Messages of the API begin small and end without a stop, to stand in a log. */
function sentence(message: string): string {
  const text = message.charAt(0).toUpperCase() + message.slice(1)
  return /[.!?]$/.test(text) ? text : `${text}.`
}
