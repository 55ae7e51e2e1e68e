import type { CallbackVendor } from '../contracts/jobs.ts'
import { invalidField, MUST } from '../inbound/refusals.ts'
import type { RequestedCallback, SubmittedJob } from '../jobs/submit.ts'
import { judgeCallbackUrl } from '../outbound/remote-url.ts'
import { type CallbackTerms, sealCallback } from '../webhooks/callbacks.ts'
import type { Dependencies } from './endpoint.ts'
import { submittedReply } from './native/job-view.ts'

/** A callback as a door was asked for it. */
export interface AskedCallback extends CallbackTerms {
  readonly vendor: CallbackVendor
  /** The field that asks for it. */
  readonly param: string
}

/**
 * Accepts the callback of a job. What the text of a URL gives away is refused here, as a service to its author; each
 * delivery checks where its host leads to.
 *
 * @throws GatewayError INVALID_REQUEST naming the field; DEPENDENCY_UNAVAILABLE
 */
export async function acceptCallback(
  { vendor, param, ...asked }: AskedCallback,
  workspace: string,
  { services: { state }, secretKeys, webhooks }: Dependencies,
): Promise<RequestedCallback> {
  const identity = JSON.stringify([vendor, asked])
  if (asked.url === null) {
    if ((await state.settings.webhook(workspace)) === null)
      throw invalidField(param, MUST.beLeftOut('the workspace has no webhook; set one first'))
    return { kept: sealCallback(vendor, asked, workspace, secretKeys), identity }
  }
  const judged = judgeCallbackUrl(asked.url, webhooks?.insecure ?? false)
  if ('issue' in judged) throw invalidField(param, judged.issue)
  const { url, authorization } = judged
  const credentials = authorization === null ? {} : { authorization }
  const terms = { ...asked, url, headers: { ...credentials, ...asked.headers } }
  return { kept: sealCallback(vendor, terms, workspace, secretKeys), identity }
}

/** Headers of the answer to a submission: where the job is, for whoever looks after it. */
export function submissionHeaders(submitted: SubmittedJob): Readonly<Record<string, string>> {
  const { location = '', 'x-lk-idempotent-replay': replay } = submittedReply(submitted).headers ?? {}
  return { location, ...(replay === undefined ? {} : { 'x-lk-idempotent-replay': replay }) }
}
