import { errorReply, GatewayError } from '../../contracts/errors.ts'
import type { Job } from '../../contracts/jobs.ts'
import { invalidField, MUST } from '../edge/refusals.ts'
import type { RequestedCallback, SubmittedJob } from '../jobs/submit.ts'
import { judgeCallbackUrl } from '../outbound/remote-url.ts'
import { type CallbackTerms, sealCallback } from '../webhooks/callbacks.ts'
import type { Dependencies, Door } from './endpoint.ts'
import { submittedReply } from './native/job-view.ts'
import { shapedError } from './openapi/operation.ts'

export interface AskedCallback extends CallbackTerms {
  readonly door: string
  /** The field that asks for it. */
  readonly param: string
}

/**
 * Accepts the callback of a job. A URL whose text is wrong is refused here, as a service to its author; each delivery
 * checks where its host leads to.
 *
 * @throws GatewayError INVALID_REQUEST naming the field; DEPENDENCY_UNAVAILABLE
 */
export async function acceptCallback(
  { door, param, ...asked }: AskedCallback,
  workspace: string,
  { services: { state }, secretKeys, webhooks }: Dependencies,
): Promise<RequestedCallback> {
  const identity = JSON.stringify([door, asked])
  if (asked.url === null) {
    if ((await state.settings.webhook(workspace)) === null)
      throw invalidField(param, MUST.beLeftOut('the workspace has no webhook; set one first'))
    return { kept: sealCallback(door, asked, workspace, secretKeys), identity }
  }
  const judged = judgeCallbackUrl(asked.url, webhooks?.insecure ?? false)
  if ('issue' in judged) throw invalidField(param, judged.issue)
  const { url, authorization } = judged
  const credentials = authorization === null ? {} : { authorization }
  const terms = { ...asked, url, headers: { ...credentials, ...asked.headers } }
  return { kept: sealCallback(door, terms, workspace, secretKeys), identity }
}

/** Headers of the answer to a submission: where the job is, for its operator. */
export function submissionHeaders(submitted: SubmittedJob): Readonly<Record<string, string>> {
  const { location = '', 'x-lk-idempotent-replay': replay } = submittedReply(submitted).headers ?? {}
  return { location, ...(replay === undefined ? {} : { 'x-lk-idempotent-replay': replay }) }
}

/** Too slow, and too many at once: another attempt may well be taken. */
const PASSING_STATUSES = [408, 429]

/** Statuses after which a vendor that does not repeat refused deliveries tries no more. */
export function isClientError(status: number): boolean {
  return status >= 400 && status <= 499 && !PASSING_STATUSES.includes(status)
}

/** The body of a refusal of the job, as its door would have answered with it. */
export function callbackFailure({ error, requestId }: Job, door: Door): object {
  const { code, message, param, details } = error ?? CANCELLED
  const failure = new GatewayError(code, message, { details, ...(param === null ? {} : { param }) })
  const translated = door.translateError(failure, { headers: {} })
  return shapedError(door.errorShape, translated, requestId, errorReply(translated, requestId).body)
}

const CANCELLED = {
  code: 'JOB_NOT_FOUND',
  message: 'the job was cancelled',
  param: null,
  details: {},
} as const
