import { useEffect, useRef } from 'preact/hooks'
import type { RequestAnswer } from '../../server/answers/requests.ts'
import { milliseconds, noneWords, plural } from '../format.ts'
import { h } from '../h.ts'

import { StatusBadge } from './badge.ts'

/** The attempts of a request, each on the request's time: who was tried, for how long, and why it failed. */
export function Attempts({ request }: { readonly request: RequestAnswer }) {
  const { bars, totalMs } = attemptBars(request)
  if (bars.length === 0) {
    return h(
      'p',
      { class: 'quiet' },
      request.replayed
        ? 'Replayed from an earlier request. No provider was called.'
        : request.cache === 'hit'
          ? 'From the speech cache. No provider was called.'
          : 'No provider was called.',
    )
  }
  return h(
    'ol',
    { class: 'attempts' },
    bars.map((bar, index) => h(Attempt, { key: index, bar, place: index + 1 })),
    h(
      'li',
      { class: 'attempts-axis', 'aria-hidden': 'true' },
      h('span', null, '0'),
      h('span', null, milliseconds(totalMs)),
    ),
  )
}

function Attempt({ bar, place }: { readonly bar: AttemptBar; readonly place: number }) {
  const { provider, model, replica, status, reason, ok, from, length } = bar
  const fill = useRef<HTMLSpanElement>(null)
  useEffect(() => {
    fill.current?.style.setProperty('inset-inline-start', `${from * 100}%`)
    fill.current?.style.setProperty('inline-size', `${length * 100}%`)
  }, [from, length])
  return h(
    'li',
    { class: 'attempt' },
    h(
      'div',
      { class: 'attempt-words' },
      h('span', { class: 'attempt-place' }, place),
      h('span', { class: 'mono attempt-name' }, provider, '/', model),
      replica === undefined ? null : h('span', { class: 'quiet small' }, `replica ${replica}`),
      h(StatusBadge, { status: status ?? (ok ? 'ok' : 'failed') }),
      h('span', { class: 'attempt-time' }, milliseconds(bar.milliseconds)),
    ),
    h(
      'div',
      { class: 'attempt-track' },
      h('span', { ref: fill, class: ok ? 'attempt-fill' : 'attempt-fill attempt-failed' }),
    ),
    h('p', { class: ok ? 'quiet small' : 'small' }, ok ? 'answered' : reason),
  )
}

type AttemptAnswer = RequestAnswer['attempts'][number]

/** One attempt on the axis of its request, in shares of it. */
interface AttemptBar extends AttemptAnswer {
  readonly ok: boolean
  readonly from: number
  readonly length: number
}

/**
 * Lays the attempts of a request on its time: they were made one after the other, and the last one ended with the
 * request. What comes before them is the time in which the body arrived and nothing was tried.
 */
export function attemptBars(request: Pick<RequestAnswer, 'attempts' | 'milliseconds'>): {
  readonly bars: readonly AttemptBar[]
  readonly totalMs: number
} {
  const { attempts } = request
  const tried = attempts.reduce((sum, { milliseconds }) => sum + milliseconds, 0)
  const totalMs = Math.max(request.milliseconds, tried)
  let atMs = totalMs - tried
  const bars = attempts.map((attempt) => {
    const from = share(atMs, totalMs)
    atMs += attempt.milliseconds
    return { ...attempt, ok: attempt.reason === 'ok', from, length: share(attempt.milliseconds, totalMs) }
  })
  return { bars, totalMs }
}

function share(part: number, whole: number): number {
  return whole > 0 ? part / whole : 0
}

/** How a request, or a run of a job, ended: its status, and the code of its error. */
export function Outcome({ request }: { readonly request: RequestAnswer }) {
  const { status, error } = request
  return [
    h(StatusBadge, { status: status ?? (error === null ? 'ok' : 'failed') }),
    error === null ? null : h('span', { class: 'mono small' }, error),
  ]
}

/** The entry that answered, and how many were tried before it; none of a request without an answer. */
export function ServedBy({ request }: { readonly request: Pick<RequestAnswer, 'attempts'> }) {
  const { attempts } = request
  const server = answeringAttempt(request)
  if (server === null) {
    const words = attempts.length === 0 ? '–' : noneWords(attempts.length)
    return h('span', { class: 'quiet' }, words)
  }
  const before = attempts.length - 1
  return [
    h('span', { class: 'mono requests-server' }, server.provider, '/', server.model),
    ' ',
    before === 0 ? null : h('span', { class: 'quiet nowrap' }, 'after ', plural(before, 'failover')),
  ]
}

/** The attempt that answered; null: none did. */
export function answeringAttempt({ attempts }: Pick<RequestAnswer, 'attempts'>) {
  return attempts.find(({ reason }) => reason === 'ok') ?? null
}
