import type { JobStatus } from '../../../../../schema/jobs.ts'
import { ApiError } from '../../api-error.ts'
import type { AppKeys } from './app-keys.ts'
import { type Heard, readHeard } from './heard.ts'
import { JOBS_PATH } from './options.ts'
import { callV1 } from './v1.ts'

/** How long an answer may wait for the job to change, in seconds. */
const WAIT_SECONDS = 20

/** A job as `/v1/transcription/jobs/{job_id}` tells it. */
export interface JobView {
  readonly job_id: string
  readonly status: JobStatus
  readonly attempts: number
  readonly cancel_requested: boolean
  readonly error: {
    readonly code: string
    readonly message: string
    readonly param: string | null
    readonly details: Readonly<Record<string, unknown>>
    readonly request_id: string
  } | null
  readonly result: unknown
  readonly result_url: string | null
}

interface Place {
  readonly keys: AppKeys
  readonly app: string
  readonly signal: AbortSignal
}

/**
 * Follows a job to its end.
 *
 * @param onChange the job as it stands, whenever it was looked at
 * @returns the transcript; null when it was cancelled
 * @throws ApiError, also the job's own
 */
export async function followJob(
  id: string,
  { keys, app, signal }: Place,
  onChange: (job: JobView) => void,
): Promise<Heard | null> {
  for (;;) {
    const answer = await callV1(keys, app, `${JOBS_PATH}/${encodeURIComponent(id)}?wait=${WAIT_SECONDS}`, {
      signal,
    })
    const job = (await answer.json()) as JobView
    onChange(job)
    if (job.status === 'cancelled') return null
    if (job.status === 'failed') throw errorOf(job)
    if (job.status === 'succeeded') return readHeard(await resultOf(job, signal), () => 'application/json')
  }
}

export async function cancelJob(id: string, { keys, app, signal }: Place): Promise<void> {
  await callV1(keys, app, `${JOBS_PATH}/${encodeURIComponent(id)}`, { method: 'DELETE', signal })
}

/** A large result is behind a URL, which may lead to a store that this page may not ask. */
async function resultOf({ result, result_url: url }: JobView, signal: AbortSignal): Promise<string> {
  if (result !== null || url === null) return JSON.stringify(result)
  if (new URL(url, location.href).origin !== location.origin) {
    throw new ApiError(
      'the result is large and stored in the object store: read it through the API, by its result_url',
      {
        code: 'RESULT_ELSEWHERE',
        status: 200,
      },
    )
  }
  return (await fetch(url, { signal, credentials: 'omit' })).text()
}

function errorOf({ error }: JobView): ApiError {
  return new ApiError(error?.message ?? 'the job failed', {
    code: error?.code ?? 'INTERNAL',
    status: 200,
    param: error?.param ?? null,
    details: error?.details ?? {},
    requestId: error?.request_id ?? null,
  })
}
