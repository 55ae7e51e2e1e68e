import type { JobDetailAnswer } from '../../../api/answers.ts'

/** One line of a job's history. */
export interface JobStep {
  readonly at: string
  readonly status: string
  readonly text: string
  /** How long it stayed so; null: it still does, or for good. */
  readonly milliseconds: number | null
}

/** The history in words, oldest first. */
export function jobSteps({ history }: Pick<JobDetailAnswer, 'history'>): readonly JobStep[] {
  return history.map(({ at, status, claim }, index) => {
    const next = history[index + 1]
    return {
      at,
      status,
      text: stepInWords(status, claim),
      milliseconds: next === undefined ? null : Math.max(0, Date.parse(next.at) - Date.parse(at)),
    }
  })
}

function stepInWords(status: string, claim: number): string {
  switch (status) {
    case 'queued':
      return claim === 0 ? 'accepted' : `re-queued after run ${claim}`
    case 'processing':
      return `started, run ${claim}`
    default:
      return claim === 0 ? status : `${status} in run ${claim}`
  }
}
