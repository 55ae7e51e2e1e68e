import { Cancellation } from '../../contracts/cancellation.ts'
import type { Job, JobCallback } from '../../contracts/jobs.ts'
import type { KeptText } from '../../contracts/objects.ts'
import type { WebhookEvent } from '../../contracts/outbox.ts'
import { type SealContext, seal, unseal } from '../../contracts/sealing.ts'
import type { State } from '../../contracts/state.ts'
import type { Posted, WebhookMessage } from '../../contracts/webhooks.ts'
import { attemptWebhook, type Sending } from './send.ts'
import type { WebhookTarget } from './target.ts'

/** Where one job tells its end, and how, as its caller said it. */
export interface CallbackTerms {
  /** As `judgeCallbackUrl` returned it; null: the webhook of the workspace. */
  readonly url: string | null
  readonly method: 'POST' | 'PUT'
  /** Headers that the caller wants to be known by, names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  /** The body's inputs beside the job. Plain JSON, which only its vendor's form reads. */
  readonly view: unknown
}

type Rendered = Pick<WebhookMessage, 'headers' | 'body'>

/** How a vendor tells the end of a job. */
export interface CallbackForm {
  /**
   * The delivery of a job that has ended: the same bytes at every attempt.
   *
   * @param result JSON of the transcript's envelope; null: the job has none
   */
  render(job: Job, result: string | null, view: unknown): Rendered | Promise<Rendered>
  /** Headers that show at the webhook of a workspace who sends it; see `Announcement`. */
  readonly signature?: (timestamp: number, signature: string) => Readonly<Record<string, string>>
  /** Statuses after which the vendor does not try again, beside those after which no vendor does. */
  isFinal(status: number): boolean
}

export interface CallbackDependencies {
  readonly state: Pick<State, 'jobs'>
  /** By the name of the door. */
  readonly forms: ReadonlyMap<string, CallbackForm>
  /**
   * Reads a result, charged to the memory budget until `onFinished` is told.
   *
   * @throws GatewayError as `openResult`
   */
  readonly openResult: (
    job: Job,
    result: KeptText,
    reader: { readonly signal: Cancellation; onFinished(listener: () => void): void },
  ) => Promise<string>
}

/** The callback of a job as its record keeps it. */
export function sealCallback(
  door: string,
  terms: CallbackTerms,
  workspace: string,
  secretKeys: readonly Buffer[],
): JobCallback {
  return { vendor: door, sealed: seal(secretKeys, JSON.stringify(terms), callbackContext(workspace)) }
}

/** Null: the job has none, or it was sealed with a key that is no longer among these. */
export function openCallback(
  { callback, workspace }: Pick<Job, 'callback' | 'workspace'>,
  secretKeys: readonly Buffer[],
): CallbackTerms | null {
  const text = callback === undefined ? null : unseal(secretKeys, callback.sealed, callbackContext(workspace))
  return text === null ? null : (JSON.parse(text) as CallbackTerms)
}

function callbackContext(workspace: string): SealContext {
  return { purpose: 'job-callback', workspace }
}

/** Whether an event goes to the callback of its job. */
export function isForCallback({ id }: Pick<WebhookEvent, 'id'>): boolean {
  return id.startsWith('cbk_')
}

interface CallbackSending extends CallbackDependencies, Sending {
  readonly secretKeys: readonly Buffer[]
  /** The webhook of the event's workspace; null: it has none. */
  target(): Promise<WebhookTarget | null>
}

/**
 * Delivers the end of a job to its callback once.
 *
 * @returns null when that is the webhook of a workspace that has none any more
 * @throws GatewayError when the state or the store does not answer, or this node has no memory for the result
 */
export async function attemptCallback(event: WebhookEvent, sending: CallbackSending): Promise<Posted | null> {
  const job = await sending.state.jobs.get(event.jobId)
  if (job?.callback === undefined) return { kind: 'refused', reason: 'the job is no longer kept' }
  const form = sending.forms.get(job.callback.vendor)
  if (form === undefined) return { kind: 'refused', reason: 'its door is no longer served' }
  const terms = openCallback(job, sending.secretKeys)
  if (terms === null)
    return { kind: 'failed', reason: 'its callback was sealed with a key that LARKWAY_SECRET_KEYS lacks' }
  const release: (() => void)[] = []
  const reader = { signal: new Cancellation(), onFinished: (done: () => void) => void release.push(done) }
  try {
    const result = job.result === null ? null : await sending.openResult(job, job.result, reader)
    const message = await form.render(job, result, terms.view)
    const posted = await sendCallback(event, terms, form, message, sending)
    const isFinal = posted?.kind === 'answered' && form.isFinal(posted.status)
    return isFinal ? { ...posted, isFinal } : posted
  } finally {
    for (const done of release) done()
  }
}

async function sendCallback(
  { id }: WebhookEvent,
  { url, method, headers: asked }: CallbackTerms,
  { signature }: CallbackForm,
  { headers, body }: Rendered,
  sending: CallbackSending,
): Promise<Posted | null> {
  if (url !== null) {
    const own = { 'content-type': 'application/json', 'user-agent': 'Larkway', 'x-lk-webhook-id': id }
    return sending.post(url, { method, headers: { ...own, ...headers, ...asked }, body })
  }
  const target = await sending.target()
  if (target === null) return null
  const all = (timestamp: number, plain: string) => ({ ...headers, ...signature?.(timestamp, plain) })
  return attemptWebhook(target, { id, body, headers: all }, sending)
}
