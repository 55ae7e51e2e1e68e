import { useEffect, useRef, useState } from 'preact/hooks'
import type { ApiError } from '../../api-error.ts'
import { toApiError } from '../../api-error.ts'
import type { AppKeys } from './app-keys.ts'
import { type Heard, readHeard } from './heard.ts'
import { cancelJob, followJob, type JobView } from './job.ts'
import { type HearingOptions, hearingFields, hearingPath } from './options.ts'
import { type Transfer, TransferRate } from './transfer-rate.ts'
import { upload } from './upload.ts'
import { isRefusedKey } from './v1.ts'

/** How far a transcription is. */
export type Run =
  | { readonly at: 'idle' }
  | { readonly at: 'sending'; readonly transfer: Transfer }
  | { readonly at: 'working'; readonly sinceMs: number }
  | { readonly at: 'job'; readonly id: string; readonly job: JobView | null; readonly cancelling: boolean }
  | { readonly at: 'cancelled'; readonly during: 'sending' | 'working' | 'job' }
  | { readonly at: 'failed'; readonly error: ApiError }
  | { readonly at: 'done'; readonly heard: Heard; readonly tookMs: number }

export interface HearingRun {
  readonly run: Run
  readonly send: (file: File, options: HearingOptions) => Promise<void>
  readonly cancel: () => void
  readonly clear: () => void
}

/** Whether something is under way that leaving the page would end. */
export function isUnderWay({ at }: Run): boolean {
  return at === 'sending' || at === 'working'
}

/** Sends a file to be heard, and follows what becomes of it. Leaving the view ends the call; a job goes on. */
export function useHearing(keys: AppKeys, app: string): HearingRun {
  const [run, setRun] = useState<Run>({ at: 'idle' })
  /** A call stays that of the app that it was made for, whichever is chosen meanwhile. */
  const current = useRef<{
    readonly abort: AbortController
    readonly app: string
    jobId: string | null
  } | null>(null)
  useEffect(() => () => current.current?.abort.abort(), [])

  const send = async (file: File, options: HearingOptions) => {
    const abort = new AbortController()
    const mine = { abort, app, jobId: null as string | null }
    current.current?.abort.abort()
    current.current = mine
    const { signal } = abort
    const show = (next: Run) => {
      if (current.current === mine && !signal.aborted) setRun(next)
    }
    const beganMs = performance.now()
    try {
      const answer = await sendFile(keys, app, file, options, signal, show)
      const tookMs = () => performance.now() - beganMs
      if (!options.asJob)
        return show({ at: 'done', heard: readHeard(answer.text, answer.header), tookMs: tookMs() })
      const { job_id: id } = JSON.parse(answer.text) as JobView
      mine.jobId = id
      show({ at: 'job', id, job: null, cancelling: false })
      const heard = await followJob(id, { keys, app, signal }, (job) =>
        show({ at: 'job', id, job, cancelling: job.cancel_requested }),
      )
      show(heard === null ? { at: 'cancelled', during: 'job' } : { at: 'done', heard, tookMs: tookMs() })
    } catch (thrown) {
      show({ at: 'failed', error: toApiError(thrown) })
    }
  }

  const cancel = () => {
    const mine = current.current
    if (mine === null) return
    if (run.at === 'job' && mine.jobId !== null) {
      setRun({ ...run, cancelling: true })
      const place = { keys, app: mine.app, signal: mine.abort.signal }
      cancelJob(mine.jobId, place).catch((thrown) => setRun({ at: 'failed', error: toApiError(thrown) }))
      return
    }
    if (run.at !== 'sending' && run.at !== 'working') return
    mine.abort.abort()
    setRun({ at: 'cancelled', during: run.at })
  }
  const clear = () => {
    current.current?.abort.abort()
    current.current = null
    setRun({ at: 'idle' })
  }
  return { run, send, cancel, clear }
}

function sendFile(
  keys: AppKeys,
  app: string,
  file: File,
  options: HearingOptions,
  signal: AbortSignal,
  show: (run: Run) => void,
) {
  const form = new FormData()
  for (const [name, value] of hearingFields(options)) form.append(name, value)
  form.append('file', file, file.name)
  show({ at: 'sending', transfer: new TransferRate(file.size, 0).note(0, 0) })
  return keys.call(
    app,
    signal,
    (key) => {
      const rate = new TransferRate(file.size, performance.now())
      return upload(hearingPath(options), key, form, signal, {
        onSent: (sent, total) => {
          // The form adds some bytes around the file.
          const bytes = total > 0 ? (sent / total) * file.size : 0
          show({ at: 'sending', transfer: rate.note(Math.round(bytes), performance.now()) })
        },
        onUploaded: () => show({ at: 'working', sinceMs: Date.now() }),
      })
    },
    isRefusedKey,
  )
}
