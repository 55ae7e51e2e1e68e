import type { ComponentChildren, RefObject } from 'preact'
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { type ApiError, toApiError } from '../../api.ts'
import { Button } from '../../components/button.ts'
import { Code, Copy } from '../../components/copy.ts'

import { Section } from '../../components/page-head.ts'
import { Progress } from '../../components/progress.ts'
import { Note } from '../../components/states.ts'
import { Tabs } from '../../components/tabs.ts'
import { bytes, duration } from '../../format.ts'
import { h } from '../../h.ts'
import { useLoad } from '../../load.ts'
import { pathOf } from '../../paths.ts'
import { useLeaveGuard } from '../../router.ts'
import type { Answer, AppKeys, JobView, Transfer } from './calls.ts'
import { CallFailure, callV1, cancelJob, followJob, isRefusedKey, TransferRate, upload } from './calls.ts'
import {
  type Abilities,
  Options,
  PLAIN_HEARING,
  TranscriptionForm,
  type TranscriptionOptions,
  transcriptionFields,
  transcriptionPath,
} from './options.ts'
import { Source } from './recording.ts'
import { readTranscript, type TranscriptReply } from './reply.ts'
import { deleteUpload, RESUMABLE_BYTES, uploadBody, uploadResumably } from './resumable.ts'
import { SnippetsView, transcriptionSnippets } from './snippets.ts'
import { followAlong, ResultFacts, Transcript, useObjectUrl } from './transcript.ts'

/** How far it is, for who does not see it; failures speak for themselves. */
const SAID: Readonly<Record<Run['at'], string>> = {
  idle: '',
  sending: 'Uploading',
  working: 'Waiting for provider…',
  job: 'Job queued',
  cancelled: 'Cancelled',
  failed: '',
  done: 'Done',
}

/** Transcription: a file or recording, its options, its progress and the result. */
export function Transcription(props: {
  readonly workspace: string
  readonly app: string
  readonly keys: AppKeys
  /** Audio from elsewhere in the page, taken when it is another. */
  readonly handed: File | null
  readonly purposes: readonly string[]
  readonly abilities: Abilities | null
}) {
  const { workspace, app, keys, handed, purposes, abilities } = props
  const [file, setFile] = useState<File | null>(null)
  const [options, setOptions] = useState<TranscriptionOptions>(PLAIN_HEARING)
  const audio = useRef<HTMLAudioElement>(null)
  const url = useObjectUrl(file)
  const maxBytes = useAudioLimit(keys, app, file !== null)
  const { run, send, cancel, clear } = useHearing(keys, app)
  const busy = isUnderWay(run) || run.at === 'job'
  useTimesWhereKept(abilities, setOptions)
  useLeaveGuard(isUnderWay(run), 'Leave and cancel the request?')
  const choose = (chosen: File | null) => {
    clear()
    setFile(chosen)
  }
  const place = useHanded(handed, file, (audio) => busy || choose(audio))
  const change = (fields: Partial<TranscriptionOptions>) => setOptions((old) => ({ ...old, ...fields }))
  const snippets = transcriptionSnippets(location.origin, file?.name ?? 'audio.wav', options)
  return h(
    'div',
    { class: 'play' },
    h(
      'div',
      { class: 'play-source' },
      h(Source, { file, url, maxBytes, audio, locked: busy, onFile: choose }),
    ),
    h(Options, null, h(TranscriptionForm, { options, purposes, abilities, onChange: change })),
    h(
      'div',
      { class: 'play-run stack', ref: place },
      h(
        'div',
        { class: 'actions' },
        h(
          Button,
          {
            kind: 'primary',
            icon: 'upload',
            disabled: file === null || app === '',
            busy,
            onClick: () => file && send(file, options),
          },
          options.asJob ? 'Send as a job' : 'Transcribe',
        ),
        file === null ? h('span', { class: 'small quiet' }, 'Drop, choose or record audio first.') : null,
      ),
      h('p', { class: 'hidden', role: 'status' }, SAID[run.at]),
      h(TranscriptionProgress, { workspace, run, onCancel: cancel }),
      run.at === 'done'
        ? h(TranscriptionResult, { workspace, transcript: run.transcript, tookMs: run.tookMs, audio })
        : null,
      h(SnippetsView, { snippets }),
    ),
  )
}

/** Takes the audio handed over, and focuses the send button, as the pressed one is gone. */
function useHanded(handed: File | null, file: File | null, take: (audio: File) => void) {
  const place = useRef<HTMLDivElement>(null)
  useEffect(() => {
    if (handed !== null) take(handed)
  }, [handed])
  useEffect(() => {
    if (file !== null && file === handed) place.current?.querySelector('button')?.focus()
  }, [file])
  return place
}

/** Times of words are asked for from the start where an entry keeps them: the transcript can be followed then. */
function useTimesWhereKept(
  abilities: Abilities | null,
  setOptions: (change: (old: TranscriptionOptions) => TranscriptionOptions) => void,
): void {
  const kept = abilities?.features?.has('word_timestamps') ?? false
  useEffect(() => {
    setOptions((old) => ({ ...old, timestamps: kept ? (old.timestamps ?? 'word') : null }))
  }, [kept])
}

/** Size limit of audio, requested from the gateway once there is something to send. */
function useAudioLimit(keys: AppKeys, app: string, wanted: boolean): number | null {
  const load = useLoad(
    async (signal) => {
      if (!wanted || app === '') return null
      const { limits } = (await (await callV1(keys, app, '/v1/me', { signal })).json()) as Me
      return limits?.max_audio_bytes ?? null
    },
    [app, wanted],
  )
  return load.value
}

interface Me {
  readonly limits?: { readonly max_audio_bytes?: number }
}

/** How far a transcription is. */
type Run =
  | { readonly at: 'idle' }
  | { readonly at: 'sending'; readonly transfer: Transfer; readonly isBroken?: boolean }
  | { readonly at: 'working'; readonly sinceMs: number }
  | { readonly at: 'job'; readonly id: string; readonly job: JobView | null; readonly cancelling: boolean }
  | { readonly at: 'cancelled'; readonly during: 'sending' | 'working' | 'job' }
  | { readonly at: 'failed'; readonly error: ApiError }
  | { readonly at: 'done'; readonly transcript: TranscriptReply; readonly tookMs: number }

interface TranscriptionRun {
  readonly run: Run
  readonly send: (file: File, options: TranscriptionOptions) => Promise<void>
  readonly cancel: () => void
  readonly clear: () => void
}

/** True if something is under way that leaving the page would end. */
function isUnderWay({ at }: Run): boolean {
  return at === 'sending' || at === 'working'
}

/** Sends a file for transcription and follows it. Leaving the view ends the call; a job continues. */
function useHearing(keys: AppKeys, app: string): TranscriptionRun {
  const [run, setRun] = useState<Run>({ at: 'idle' })
  /** A call stays that of the app that it was made for, whichever is chosen meanwhile. */
  const current = useRef<{
    readonly abort: AbortController
    readonly app: string
    jobId: string | null
  } | null>(null)
  useEffect(() => () => current.current?.abort.abort(), [])

  const send = async (file: File, options: TranscriptionOptions) => {
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
        return show({ at: 'done', transcript: readTranscript(answer.text, answer.header), tookMs: tookMs() })
      const { job_id: id } = JSON.parse(answer.text) as JobView
      mine.jobId = id
      show({ at: 'job', id, job: null, cancelling: false })
      const transcript = await followJob(id, { keys, app, signal }, (job) =>
        show({ at: 'job', id, job, cancelling: job.cancel_requested }),
      )
      show(
        transcript === null
          ? { at: 'cancelled', during: 'job' }
          : { at: 'done', transcript, tookMs: tookMs() },
      )
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
  options: TranscriptionOptions,
  signal: AbortSignal,
  show: (run: Run) => void,
) {
  if (file.size >= RESUMABLE_BYTES) return sendLarge(keys, app, file, options, signal, show)
  const form = new FormData()
  for (const [name, value] of transcriptionFields(options)) form.append(name, value)
  form.append('file', file, file.name)
  show({ at: 'sending', transfer: new TransferRate(file.size, 0).note(0, 0) })
  return keys.call(
    app,
    signal,
    (key) => {
      const rate = new TransferRate(file.size, performance.now())
      return upload(transcriptionPath(options), key, form, signal, {
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

/** Sends a large file as an upload that survives its connection, and has that transcribed. */
async function sendLarge(
  keys: AppKeys,
  app: string,
  file: File,
  options: TranscriptionOptions,
  signal: AbortSignal,
  show: (run: Run) => void,
): Promise<Answer> {
  const place = { keys, app, signal }
  const rate = new TransferRate(file.size, performance.now())
  let transfer = rate.note(0, performance.now())
  const id = await uploadResumably(file, place, {
    onSent(sentBytes) {
      transfer = rate.note(sentBytes, performance.now())
      show({ at: 'sending', transfer })
    },
    onBroken: () => show({ at: 'sending', transfer, isBroken: true }),
  })
  show({ at: 'working', sinceMs: Date.now() })
  const answer = await callV1(keys, app, transcriptionPath(options), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(uploadBody(transcriptionFields(options), id)),
    signal,
  })
  const text = await answer.text()
  void deleteUpload(id, place)
  return { status: answer.status, text, header: (name) => answer.headers.get(name) }
}

const CANCELLED = {
  sending: 'Cancelled during the upload. Nothing was sent to a provider or charged.',
  working: 'Cancelled while waiting for the provider. Work done by then may be charged.',
  job: 'Job cancelled. There is no result.',
} as const

/** Progress of a transcription: bytes sent, then the time it takes; or how it ended without a transcript. */
function TranscriptionProgress(props: {
  readonly workspace: string
  readonly run: Run
  readonly onCancel: () => void
}) {
  const { workspace, run, onCancel } = props
  const cancel = h(Button, { small: true, icon: 'close', onClick: onCancel }, 'Cancel')
  switch (run.at) {
    case 'sending':
      return h(Sending, { transfer: run.transfer, isBroken: run.isBroken === true, cancel })
    case 'working':
      return h(Working, { sinceMs: run.sinceMs, cancel })
    case 'job':
      return h(
        'div',
        { class: 'play-progress' },
        h(Progress, { label: jobInWords(run), value: null, max: 1 }),
        h(
          'p',
          { class: 'small' },
          h('a', { href: pathOf(workspace, 'jobs', run.id) }, run.id),
          ' continues when you leave this page.',
        ),
        run.cancelling ? null : cancel,
      )
    case 'cancelled':
      return h(Note, null, CANCELLED[run.during])
    case 'failed':
      return h(CallFailure, { workspace, error: run.error })
    default:
      return null
  }
}

function Sending(props: {
  readonly transfer: Transfer
  readonly isBroken: boolean
  readonly cancel: ComponentChildren
}) {
  const { transfer, isBroken, cancel } = props
  const { sentBytes, totalBytes, bytesPerSecond: rate, secondsLeft: left } = transfer
  const words = [
    `${bytes(sentBytes)} of ${bytes(totalBytes)}`,
    ...(rate === null ? [] : [`${bytes(rate)}/s`]),
    ...(left === null || left < 1 ? [] : [`${duration(left)} left`]),
  ]
  return h(
    'div',
    { class: 'play-progress' },
    h(Progress, {
      label: isBroken ? 'Connection lost, trying again' : 'Uploading',
      value: sentBytes,
      max: totalBytes,
      text: words.join(' · '),
    }),
    cancel,
  )
}

function Working({ sinceMs, cancel }: { readonly sinceMs: number; readonly cancel: ComponentChildren }) {
  const [seconds, setSeconds] = useState(0)
  useEffect(() => {
    const timer = setInterval(() => setSeconds((Date.now() - sinceMs) / 1_000), 500)
    return () => clearInterval(timer)
  }, [sinceMs])
  return h(
    'div',
    { class: 'play-progress' },
    h(Progress, { label: 'Waiting for provider…', value: null, max: 1, text: `for ${duration(seconds)}` }),
    cancel,
  )
}

function jobInWords({ job, cancelling }: Extract<Run, { readonly at: 'job' }>): string {
  if (cancelling) return 'Cancelling'
  if (job === null || job.status === 'queued') {
    return job !== null && job.attempts > 0 ? 'Waiting to be retried' : 'Queued'
  }
  const parts = job?.progress
  return parts == null ? 'Processing' : `Processing, ${parts.done} of ${parts.total} parts`
}

/** A transcript: to read along with the audio, as received, and with its cost. */
function TranscriptionResult(props: {
  readonly workspace: string
  readonly transcript: TranscriptReply
  readonly tookMs: number
  readonly audio: RefObject<HTMLAudioElement | null>
}) {
  const { workspace, transcript, tookMs, audio } = props
  const [tab, setTab] = useState('transcript')
  const rendered = /^(1\r?\n|WEBVTT)/.test(transcript.content) && transcript.segments.length === 0
  const laid = useMemo(
    () => followAlong(transcript.content, transcript.words, transcript.segments),
    [transcript],
  )
  const tabs = [
    { id: 'transcript', label: rendered ? 'Subtitles' : 'Transcript' },
    { id: 'raw', label: 'Raw response' },
  ]
  const winds = laid.marks.length > 0
  return h(
    Section,
    {
      title: 'Result',
      actions: h(Copy, { text: transcript.content, label: 'Copy transcript' }, 'Copy transcript'),
    },
    h(
      Tabs,
      { label: 'Result', tabs, chosen: tab, onChoose: setTab },
      tab === 'raw'
        ? h(Code, { title: 'Response', text: transcript.raw, tall: true })
        : rendered
          ? h(Code, { title: 'Subtitles', text: transcript.content, tall: true })
          : [
              h(Transcript, { laid, audio: winds ? audio : null }),
              h(
                'p',
                { class: 'small quiet' },
                winds
                  ? `Click a ${transcript.words.length > 0 ? 'word' : 'segment'} to jump to it.`
                  : 'Request word timestamps to follow along during playback.',
              ),
            ],
    ),
    h(ResultFacts, { workspace, facts: transcript, tookMs, more: aboutAudio(transcript) }),
  )
}

function aboutAudio(transcript: TranscriptReply): readonly (readonly [string, string])[] {
  const { durationSeconds, language, usage } = transcript
  const isCounted = usage.some(([name]) => name === 'audio_seconds')
  return [
    ...(durationSeconds === null || isCounted ? [] : [['Audio', duration(durationSeconds)] as const]),
    ...(language === null ? [] : [['Language', language] as const]),
  ]
}
