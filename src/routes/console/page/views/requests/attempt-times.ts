import type { RequestAnswer } from '../../../api/answers.ts'

type Attempt = RequestAnswer['attempts'][number]

/** One attempt on the axis of its request, in shares of it. */
export interface AttemptBar extends Attempt {
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
