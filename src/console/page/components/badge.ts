import type { ComponentChildren } from 'preact'
import type { ManagedBy } from '../../../gateway/admin/parts.ts'
import { h } from '../h.ts'

export type Tone = 'neutral' | 'ok' | 'warn' | 'bad' | 'accent'

/** A word about something's state. The colour never says more than the word. */
export function Badge(props: {
  readonly tone?: Tone
  readonly title?: string
  readonly children: ComponentChildren
}) {
  const { tone = 'neutral', title, children } = props
  return h('span', { class: `badge badge-${tone}`, title }, children)
}

const TONES: Readonly<Record<string, Tone>> = {
  succeeded: 'ok',
  ok: 'ok',
  published: 'ok',
  active: 'ok',
  processing: 'accent',
  draft: 'accent',
  queued: 'neutral',
  cancelled: 'neutral',
  cancelling: 'warn',
  expired: 'warn',
  failed: 'bad',
  revoked: 'bad',
}

/** A state by its name (of a job, a key, a route), or the status of an answer by its number. */
export function StatusBadge({ status }: { readonly status: string | number }) {
  if (typeof status === 'string') {
    const word = status.replace('_', '-')
    return h(Badge, { tone: TONES[word] ?? 'neutral' }, word)
  }
  return h(
    Badge,
    { tone: status < 300 ? 'ok' : status < 400 ? 'neutral' : status < 500 ? 'warn' : 'bad' },
    status,
  )
}

/** Marks an item of a list that the file defines. */
export function FileBadge({ managedBy }: { readonly managedBy: ManagedBy }) {
  if (managedBy === 'console') return null
  return h(Badge, { title: 'Defined in the configuration file; read-only here' }, 'file')
}

/** Marks an item of a list that was saved but no longer fits the rest. */
export function NotInForce({ issues }: { readonly issues: readonly string[] | undefined }) {
  if (issues === undefined) return null
  return h(Badge, { tone: 'bad', title: issues.join('\n') }, 'not active')
}
