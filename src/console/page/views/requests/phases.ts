import type { LogRecordAnswer } from '../../../server/answers/log.ts'
import { Section } from '../../components/page-head.ts'
import { took } from '../../format.ts'
import { h } from '../../h.ts'

/** A part of the time that a request took. */
interface Phase {
  readonly name: 'body' | 'upstream' | 'own' | 'stream'
  readonly label: string
  readonly milliseconds: number
}

/**
 * The time of a request in parts that follow one another and come to the whole; empty where they are not known, and of
 * live sessions, whose time is their caller's.
 */
export function phasesOf(
  record: Pick<LogRecordAnswer, 'kind' | 'total_ms' | 'body_ms' | 'upstream_ms' | 'first_ms'>,
): readonly Phase[] {
  const { kind, total_ms: total, body_ms, upstream_ms, first_ms: first } = record
  if (kind === 'session' || total <= 0) return []
  if (body_ms === null && upstream_ms === null && first === null) return []
  const body = Math.min(body_ms ?? 0, total)
  // Waiting ends with the first byte of an answer that is streamed.
  const stream = first === null ? 0 : Math.max(0, total - Math.max(first, body))
  const upstream = Math.min(upstream_ms ?? 0, total - body - stream)
  const own = total - body - upstream - stream
  const phases: readonly Phase[] = [
    { name: 'body', label: 'Receiving the body', milliseconds: body },
    { name: 'upstream', label: 'Waiting for providers', milliseconds: upstream },
    { name: 'own', label: kind === 'job' ? 'Queue and Larkway' : 'Larkway', milliseconds: own },
    { name: 'stream', label: 'Streaming the answer', milliseconds: stream },
  ]
  return phases.filter(({ milliseconds }) => milliseconds > 0)
}

/** Where the time of a request went, one part after the other; nothing where that is not known. */
export function Phases({ record }: { readonly record: LogRecordAnswer }) {
  const phases = phasesOf(record)
  if (phases.length === 0) return null
  return h(
    Section,
    { title: 'Where the time went' },
    h(
      'ol',
      { class: 'attempts' },
      phases.map(({ name, label, milliseconds }, at) => {
        const before = phases.slice(0, at).reduce((sum, phase) => sum + phase.milliseconds, 0)
        const share = (part: number) => `${(part / record.total_ms) * 100}%`
        return h(
          'li',
          { key: name, class: 'attempt' },
          h(
            'div',
            { class: 'attempt-words' },
            label,
            h('span', { class: 'attempt-time' }, took(milliseconds)),
          ),
          h(
            'div',
            { class: 'attempt-track' },
            h('span', {
              class: `attempt-fill phase-${name}`,
              style: { insetInlineStart: share(before), inlineSize: share(milliseconds) },
            }),
          ),
        )
      }),
      h(
        'li',
        { class: 'attempts-axis', 'aria-hidden': 'true' },
        h('span', null, '0'),
        h('span', null, took(record.total_ms)),
      ),
    ),
  )
}
