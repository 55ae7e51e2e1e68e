import type { ComponentChildren } from 'preact'
import { type ApiError, adviceFor } from '../api.ts'
import { h } from '../h.ts'
import type { Load } from '../load.ts'
import { Button, Icon } from './button.ts'
import { Copy } from './copy.ts'

/** An empty list: what it will hold, and what to do next. */
export function EmptyState(props: {
  readonly title: string
  readonly action?: ComponentChildren
  readonly children?: ComponentChildren
}) {
  return h(
    'div',
    { class: 'empty' },
    h('p', { class: 'empty-title' }, props.title),
    props.children ? h('div', { class: 'empty-text' }, props.children) : null,
    props.action ? h('div', { class: 'empty-action' }, props.action) : null,
  )
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
  return h(
    'div',
    { class: 'error-state', role: 'alert' },
    h('p', { class: 'empty-title' }, h(Icon, { name: 'alert' }), what, ' couldn’t be loaded'),
    h('p', { class: 'empty-text' }, sentence(error.message), ' ', adviceFor(error, true)),
    h(RequestId, { id: error.requestId }),
    retry
      ? h('div', { class: 'empty-action' }, h(Button, { icon: 'refresh', onClick: retry, busy }, 'Try again'))
      : null,
  )
}

/** The error of an action, shown beside it; nothing while `error` is null. */
export function ErrorNote({ error, what }: { readonly error: ApiError | null; readonly what?: string }) {
  if (!error) return null
  // The only one may be the message itself.
  const issues = error.issues.filter((issue) => issue !== error.message)
  return h(
    'div',
    { class: 'note note-bad', role: 'alert' },
    h(Icon, { name: 'alert' }),
    h(
      'div',
      { class: 'note-text' },
      h('p', null, what ? `${what}: ${error.message}` : sentence(error.message), ' ', adviceFor(error)),
      issues.length > 0
        ? h(
            'ul',
            { class: 'issues' },
            issues.map((issue) => h('li', null, issue)),
          )
        : null,
      h(RequestId, { id: error.requestId }),
    ),
  )
}

/** A remark that is always seen: `info`, `warn`, `bad` or `ok`. */
export function Note(props: {
  readonly tone?: 'info' | 'ok' | 'warn' | 'bad'
  readonly children: ComponentChildren
}) {
  const { tone = 'info', children } = props
  const icon = tone === 'ok' ? 'check' : tone === 'info' ? null : 'alert'
  return h(
    'div',
    { class: `note note-${tone}` },
    icon ? h(Icon, { name: icon }) : null,
    h('div', { class: 'note-text' }, children),
  )
}

/** Grey lines where something will be: `rows` of them, each as high as a row of a table. */
export function Skeleton({
  rows = 4,
  label = 'Loading',
}: {
  readonly rows?: number
  readonly label?: string
}) {
  return h(
    'div',
    { class: 'skeleton', role: 'status' },
    h('span', { class: 'hidden' }, label),
    Array.from({ length: rows }, (_, index) => h('span', { class: 'skeleton-row', key: index })),
  )
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
  if (load.state === 'loading') return skeleton ?? h(Skeleton, { rows, label: `${what}: loading` })
  if (load.state === 'failed')
    return h(ErrorState, { error: load.error, what, retry: load.reload, busy: load.busy })
  return [load.error ? h(Stale<Value>, { load, what }) : null, render(load.value)]
}

const AWAY = 'Can’t reach the server. Showing the last known data.'

function Stale<Value>({ load, what }: { readonly load: Load<Value>; readonly what: string }) {
  const { error } = load
  const isAway = error?.code === 'UNREACHABLE'
  const advice = error?.retryAfterMs == null ? '' : ` ${adviceFor(error, true)}`
  return h(
    'div',
    { class: 'note note-warn', role: 'status' },
    h(Icon, { name: 'alert' }),
    h(
      'div',
      { class: 'note-text' },
      isAway ? AWAY : `${what} may be out of date: ${error?.message ?? ''}.${advice}`,
    ),
    h(Button, { small: true, onClick: load.reload, busy: load.busy }, 'Try again'),
  )
}

function RequestId({ id }: { readonly id: string | null }) {
  if (id === null) return null
  return h(
    'p',
    { class: 'request-id' },
    'Request ',
    h('code', null, id),
    ' ',
    h(Copy, { text: id, label: 'Copy request ID' }),
  )
}

/** Messages of the API begin in lower case and end without a full stop, as log lines do. */
function sentence(message: string): string {
  const text = message.charAt(0).toUpperCase() + message.slice(1)
  return /[.!?]$/.test(text) ? text : `${text}.`
}
