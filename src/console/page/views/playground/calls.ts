import type { ErrorCode } from '../../../../contracts/errors.ts'
import type { JobStatus } from '../../../../contracts/jobs.ts'
import type { ExplainRow } from '../../../../gateway/call/select/verdict.ts'
import type { SessionAnswer } from '../../../server/answers/access.ts'
import type { PlaygroundKeyAnswer } from '../../../server/answers/keys.ts'
import type { RequestAnswer } from '../../../server/answers/requests.ts'
import { ApiError, api, apiErrorOf, currentCsrfToken, unreachable } from '../../api.ts'

import { Icon } from '../../components/button.ts'
import { milliseconds } from '../../format.ts'
import { h } from '../../h.ts'
import { apiPath, requestPath } from '../../paths.ts'
import { beforeSignOut } from '../../session.ts'
import { JOBS_PATH } from './options.ts'
import { readTranscript, type TranscriptReply } from './reply.ts'

/** An answer of `/v1`, read to its end. */
export interface Answer {
  readonly status: number
  readonly text: string
  readonly header: (name: string) => string | null
}

/** The session that the keys were made for. */
let owner: SessionAnswer | null = null
const keysOf = new Map<string, AppKeys>()

/** The keys of a workspace's apps. A new session gets new ones. */
export function appKeys(workspace: string, session: SessionAnswer): AppKeys {
  if (owner === null) {
    addEventListener('pagehide', () => void giveBack())
    beforeSignOut(giveBack)
  }
  if (owner?.csrf_token !== session.csrf_token) keysOf.clear()
  owner = session
  const known = keysOf.get(workspace)
  if (known) return known
  const path = apiPath`/workspaces/${workspace}/playground-key`
  const made = new AppKeys((app) => api.post<PlaygroundKeyAnswer>(path, { app }), {
    now: () => Date.now(),
    wait,
  })
  keysOf.set(workspace, made)
  return made
}

/** Revokes and forgets all keys: they are no longer needed, and count towards the limit. */
async function giveBack(): Promise<void> {
  const csrf = currentCsrfToken()
  const all = [...keysOf].map(async ([workspace, keys]) => {
    const paths = (await keys.takeIds()).map((id) => apiPath`/console/api/workspaces/${workspace}/keys/${id}`)
    await Promise.all(paths.map((path) => revoke(path, csrf)))
  })
  await Promise.all(all)
}

/** The request outlives the page. A key that it does not reach ends within the hour. */
async function revoke(path: string, csrf: string): Promise<void> {
  const headers = { 'content-type': 'application/json', 'x-lk-csrf': csrf }
  await fetch(path, { method: 'DELETE', keepalive: true, credentials: 'same-origin', headers }).catch(
    () => {},
  )
}

/**
 * A call of `/v1` with a small body, or none. Errors are ApiErrors in the words of the envelope.
 *
 * @param path  of the endpoint
 * @param init  `onSend` is called when the key is there and the request goes out
 */
export async function callV1(
  keys: AppKeys,
  app: string,
  path: string,
  { signal, onSend, ...init }: RequestInit & { readonly signal: AbortSignal; readonly onSend?: () => void },
): Promise<Response> {
  return keys.call(
    app,
    signal,
    async (key) => {
      onSend?.()
      const headers = { ...(init.headers as Record<string, string>), authorization: `Bearer ${key}` }
      const answer = await fetch(path, {
        ...init,
        signal,
        headers,
        credentials: 'omit',
        cache: 'no-store',
      }).catch((thrown: unknown) => {
        if (signal.aborted) throw thrown
        throw unreachable()
      })
      if (answer.ok) return answer
      throw apiErrorOf(answer.status, await answer.text(), answer.headers.get('x-lk-request-id'))
    },
    isRefusedKey,
  )
}

/** An answer as it is, or the ApiError that it is. */
function accepted(answer: Answer): Answer {
  if (answer.status >= 200 && answer.status < 300) return answer
  throw apiErrorOf(answer.status, answer.text, answer.header('x-lk-request-id'), answer.header('retry-after'))
}

export function isRefusedKey(outcome: { readonly thrown: unknown } | object): boolean {
  if ('thrown' in outcome) return outcome.thrown instanceof ApiError && outcome.thrown.status === 401
  return false
}

export function wait(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = () => {
      clearTimeout(timer)
      reject(signal.reason)
    }
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', abort)
      resolve()
    }, milliseconds)
    signal.addEventListener('abort', abort)
  })
}

interface UploadSteps {
  /** How many bytes of the body the browser has handed to the network, of how many. */
  readonly onSent: (sentBytes: number, totalBytes: number) => void
  /** The body is sent: from now on the gateway and the provider work. */
  readonly onUploaded: () => void
}

/**
 * Posts a form. It needs an XMLHttpRequest, since fetch does not report upload progress.
 *
 * @throws ApiError; the signal's reason when it was aborted
 */
export function upload(
  path: string,
  key: string,
  form: FormData,
  signal: AbortSignal,
  { onSent, onUploaded }: UploadSteps,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason)
    const request = new XMLHttpRequest()
    const abort = () => request.abort()
    signal.addEventListener('abort', abort)
    request.open('POST', path)
    request.setRequestHeader('authorization', `Bearer ${key}`)
    request.upload.onprogress = ({ loaded, total }) => onSent(loaded, total)
    request.upload.onload = ({ loaded, total }) => {
      onSent(loaded, total)
      onUploaded()
    }
    request.onabort = () => reject(signal.reason)
    request.onerror = () => reject(broken())
    request.onload = () => {
      const header = (name: string) => request.getResponseHeader(name)
      try {
        resolve(accepted({ status: request.status, text: request.responseText, header }))
      } catch (thrown) {
        reject(thrown)
      }
    }
    request.onloadend = () => signal.removeEventListener('abort', abort)
    request.send(form)
  })
}

function broken(): ApiError {
  return new ApiError('the connection broke before there was an answer', { code: 'UNREACHABLE', status: 0 })
}

/** Over how long the rate is averaged, in ms: short enough to follow a line that changes, long enough to be read. */
const WINDOW_MS = 3_000

interface Mark {
  readonly atMs: number
  readonly bytes: number
}

export interface Transfer {
  readonly sentBytes: number
  readonly totalBytes: number
  /** Null until enough was seen. */
  readonly bytesPerSecond: number | null
  readonly secondsLeft: number | null
}

/** Follows one upload by the bytes that the browser reports as sent. */
export class TransferRate {
  readonly #totalBytes: number
  #marks: readonly Mark[]

  /** @param startMs when it began, on the clock of `note` */
  constructor(totalBytes: number, startMs: number) {
    this.#totalBytes = totalBytes
    this.#marks = [{ atMs: startMs, bytes: 0 }]
  }

  note(sentBytes: number, atMs: number): Transfer {
    const last = this.#marks.at(-1)
    const bytes = Math.min(Math.max(sentBytes, last?.bytes ?? 0), this.#totalBytes)
    const recent = [...this.#marks, { atMs, bytes }]
    // The newest mark older than the window stays, so that the window is covered.
    const first = recent.findLastIndex((mark) => mark.atMs <= atMs - WINDOW_MS)
    this.#marks = recent.slice(Math.max(0, first))
    const [begin = { atMs, bytes }] = this.#marks
    const elapsedMs = atMs - begin.atMs
    const rate = elapsedMs < 100 ? null : ((bytes - begin.bytes) / elapsedMs) * 1_000
    const left = this.#totalBytes - bytes
    return {
      sentBytes: bytes,
      totalBytes: this.#totalBytes,
      bytesPerSecond: rate,
      secondsLeft: rate === null || rate <= 0 ? null : left / rate,
    }
  }
}

/** How long an answer may wait for the job to change, in seconds. */
const WAIT_SECONDS = 20

/** A job as `/v1/transcription/jobs/{job_id}` tells it. */
export interface JobView {
  readonly job_id: string
  readonly status: JobStatus
  readonly attempts: number
  readonly cancel_requested: boolean
  /** How far a recording in parts is; null: it is heard as a whole. */
  readonly progress?: { readonly done: number; readonly total: number } | null
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
 * @param onChange called with each new state of the job
 * @returns the transcript; null when it was cancelled
 * @throws ApiError, also the job's own
 */
export async function followJob(
  id: string,
  { keys, app, signal }: Place,
  onChange: (job: JobView) => void,
): Promise<TranscriptReply | null> {
  for (;;) {
    const answer = await callV1(keys, app, `${JOBS_PATH}/${encodeURIComponent(id)}?wait=${WAIT_SECONDS}`, {
      signal,
    })
    const job = (await answer.json()) as JobView
    onChange(job)
    if (job.status === 'cancelled') return null
    if (job.status === 'failed') throw jobError(job)
    if (job.status === 'succeeded')
      return readTranscript(await resultOf(job, signal), () => 'application/json')
  }
}

export async function cancelJob(id: string, { keys, app, signal }: Place): Promise<void> {
  await callV1(keys, app, `${JOBS_PATH}/${encodeURIComponent(id)}`, { method: 'DELETE', signal })
}

/** A large result is a URL, which may lead to a store that this page may not ask. */
async function resultOf({ result, result_url: url }: JobView, signal: AbortSignal): Promise<string> {
  if (result !== null || url === null) return JSON.stringify(result)
  if (new URL(url, location.href).origin !== location.origin) {
    throw new ApiError(
      'the result is large and stored in the object store: read it through the API, by its result_url',
      { code: 'RESULT_ELSEWHERE', status: 200 },
    )
  }
  return (await fetch(url, { signal, credentials: 'omit' })).text()
}

function jobError({ error }: JobView): ApiError {
  return new ApiError(error?.message ?? 'the job failed', {
    code: error?.code ?? 'INTERNAL',
    status: 200,
    param: error?.param ?? null,
    details: error?.details ?? {},
    requestId: error?.request_id ?? null,
  })
}

/** For how long after it was made a node may not know a key yet. */
const UNKNOWN_FOR_MS = 5_000
const AGAIN_AFTER_MS = 400
/** A key is not used for a call that it may not outlive. */
const SPARE_MS = 120_000

interface Kept {
  readonly answer: PlaygroundKeyAnswer
  readonly madeMs: number
}

interface Clock {
  readonly now: () => number
  readonly wait: (milliseconds: number, signal: AbortSignal) => Promise<void>
}

/** The playground's keys of one session, one for each app. They are kept in memory only, and made when first needed. */
export class AppKeys {
  readonly #make: (app: string) => Promise<PlaygroundKeyAnswer>
  readonly #clock: Clock
  readonly #kept = new Map<string, Promise<Kept>>()

  /** @param make asks the console's API for a key of an app */
  constructor(make: (app: string) => Promise<PlaygroundKeyAnswer>, clock: Clock) {
    this.#make = make
    this.#clock = clock
  }

  /**
   * Makes a call with the app's key. Refused right after the key was made, it is made again for up to 5 s, since other
   * nodes learn of a key within that time; refused later, the key was revoked, and another is made, once.
   *
   * @param isRefused whether the error or answer of the call is a 401
   */
  async call<Answer>(
    app: string,
    signal: AbortSignal,
    make: (key: string) => Promise<Answer>,
    isRefused: (outcome: { readonly answer: Answer } | { readonly thrown: unknown }) => boolean,
  ): Promise<Answer> {
    let renewed = false
    for (;;) {
      const kept = await this.#current(app)
      signal.throwIfAborted()
      const outcome = await make(kept.answer.key).then(
        (answer) => ({ answer }),
        (thrown: unknown) => ({ thrown }),
      )
      if (!isRefused(outcome) || signal.aborted) return settled(outcome)
      if (this.#clock.now() - kept.madeMs < UNKNOWN_FOR_MS) {
        await this.#clock.wait(AGAIN_AFTER_MS, signal)
        continue
      }
      if (renewed) return settled(outcome)
      renewed = true
      this.#kept.delete(app)
    }
  }

  /** The ids of the keys that were made so far. They are used no more: the next call makes another. */
  async takeIds(): Promise<readonly string[]> {
    const kept = [...this.#kept.values()]
    this.#kept.clear()
    const made = await Promise.allSettled(kept)
    return made.flatMap((one) => (one.status === 'fulfilled' ? [one.value.answer.id] : []))
  }

  async #current(app: string): Promise<Kept> {
    const known = this.#kept.get(app)
    const kept = await known
    if (kept !== undefined && Date.parse(kept.answer.expires_at) - this.#clock.now() > SPARE_MS) return kept
    // Another call may have done it already.
    const newer = this.#kept.get(app)
    if (newer !== known && newer !== undefined) return newer
    const made = this.#make(app).then((answer) => ({ answer, madeMs: this.#clock.now() }))
    this.#kept.set(app, made)
    made.catch(() => {
      if (this.#kept.get(app) === made) this.#kept.delete(app)
    })
    return made
  }
}

function settled<Answer>(outcome: { readonly answer: Answer } | { readonly thrown: unknown }): Answer {
  if ('answer' in outcome) return outcome.answer
  throw outcome.thrown
}

type Attempt = RequestAnswer['attempts'][number]

/** Explains why a call of `/v1` failed, with the attempts and the next step. */
export function CallFailure({ workspace, error }: { readonly workspace: string; readonly error: ApiError }) {
  const { code, status, message, param, details, requestId } = error
  const attempts = itemsIn<Attempt>(details.attempts)
  const entries = itemsIn<ExplainRow>(details.entries)
  return h(
    'div',
    { class: 'play-failure', role: 'alert' },
    h(
      'p',
      { class: 'play-failure-title' },
      h(Icon, { name: 'alert' }),
      h('span', null, h('span', { class: 'mono' }, code), status > 200 ? ` (${status})` : '', ': ', message),
    ),
    param === null ? null : h('p', { class: 'small' }, 'Field: ', h('code', null, param)),
    h('p', null, adviceOf(error)),
    attempts.length === 0
      ? null
      : h(
          'ol',
          { class: 'play-tried' },
          attempts.map((one, index) =>
            h(
              'li',
              { key: index },
              h('span', { class: 'mono' }, one.provider, '/', one.model),
              ': ',
              one.reason,
              h('span', { class: 'quiet' }, ' after ', milliseconds(Number(one.milliseconds))),
            ),
          ),
        ),
    entries.length === 0
      ? null
      : h(
          'ul',
          { class: 'play-tried' },
          entries.map((one, index) =>
            h(
              'li',
              { key: index },
              h('span', { class: 'mono' }, one.provider, '/', one.model),
              ': ',
              one.detail ?? one.left ?? 'would be taken',
            ),
          ),
        ),
    requestId === null
      ? null
      : h(
          'p',
          { class: 'small' },
          h('a', { href: requestPath(workspace, requestId) }, 'View request ', requestId),
        ),
  )
}

function adviceOf({ code }: ApiError): string {
  if (code === 'UNREACHABLE')
    return 'Check your connection and try again. Files over the limit can also fail like this: try a smaller one.'
  return callAdvice(code)
}

/** Reads a list out of the details as the API writes them; anything else is not shown. */
function itemsIn<Item>(value: unknown): readonly Item[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === 'object' && item !== null) : []
}

/** The next step for each error of `/v1`; the error itself says what happened. */
const ADVICE: Readonly<Partial<Record<ErrorCode, string>>> = {
  INVALID_REQUEST: 'Change the option it names and try again.',
  UNAUTHENTICATED: 'The playground key expired or was revoked. Try again to get a new one.',
  INSUFFICIENT_CREDITS: 'Ask an operator to add credits, or use a provider on your own account.',
  TRIAL_EXHAUSTED: 'Ask an operator to add credits or a plan, or use a provider on your own account.',
  BUDGET_EXCEEDED: 'Wait until next month, or ask an operator to raise the workspace budget.',
  PERMISSION_DENIED: 'Sign in again: the playground key lacks the scope for this request.',
  PLAN_NOT_ENTITLED: 'Not included in the plan. An operator can change the plan of the workspace.',
  REQUEST_TIMEOUT: 'The upload was too slow. Try a faster connection or a smaller file.',
  REQUEST_TOO_LARGE: 'Cut or compress the audio: mp3 and webm are about a tenth of the size of wav.',
  AUDIO_TOO_LARGE: 'Cut or compress the audio: mp3 and webm are about a tenth of the size of wav.',
  AUDIO_TOO_LONG: 'Cut the audio into shorter pieces.',
  UNSUPPORTED_AUDIO_FORMAT: 'Convert it to mp3, m4a, wav, webm, ogg or flac. Renaming the file isn’t enough.',
  REQUIRED_FEATURE_UNAVAILABLE: 'Turn the option off, or add a model that supports it to the route.',
  UPSTREAM_REJECTED: 'The provider rejected this input. Try another file, text or voice.',
  RATE_LIMITED: 'Wait a moment and try again.',
  UPSTREAM_ERROR: 'See the attempts below. Try again, or add a fallback model to the route.',
  UPSTREAM_TIMEOUT: 'Send it as a job, which may take longer, or add a faster model to the route.',
  UPSTREAM_OUTCOME_UNKNOWN: 'Check your provider account before you send it again.',
  NO_HEALTHY_PROVIDER: 'The list below says why each entry was skipped. Fix the route and publish it.',
  PROVIDERS_COOLING_DOWN: 'Wait as long as the error says, or add a model of another provider to the route.',
  OVERLOADED: 'Wait a moment and try again.',
  DEPENDENCY_UNAVAILABLE:
    'Part of the gateway’s storage is unavailable. Try again in a moment, or tell an operator.',
  JOB_NOT_FOUND: 'The result was purged. Resubmit the job.',
}

export function callAdvice(code: string): string {
  return ADVICE[code as ErrorCode] ?? 'Try again. If it keeps failing, give an operator the request ID.'
}
