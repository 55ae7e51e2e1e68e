import type { Static } from 'typebox'
import type { EventView } from '../../../contracts/outbox.ts'
import { AUDIO_URL_DOMAINS_MAX, replaceAudioUrlDomains } from '../../../gateway/admin/settings.ts'
import { redeliver, removeWebhook, setWebhook, testWebhook } from '../../../gateway/admin/webhook.ts'
import { timestamp } from '../../../gateway/api/json-reply.ts'
import { DomainsBody, WebhookBody } from '../../../gateway/api/native/workspace.ts'
import type { DeliveryAnswer, DomainsAnswer, WebhookAnswer, WebhookTestAnswer } from '../answers/settings.ts'
import type { ConsoleContext } from '../context.ts'
import { type ConsoleCall, type ConsoleRoute, consoleEndpoint } from '../endpoint.ts'
import { jobName } from './jobs.ts'

// Settings of a workspace, as in the workspace API, and its webhook deliveries.

const DOMAINS = '/workspaces/:workspace/audio-url-domains'
const WEBHOOK = '/workspaces/:workspace/webhook'
const DELIVERIES = `${WEBHOOK}/deliveries` as const
const REDELIVER = `${DELIVERIES}/:job/redeliver` as const
const DELIVERIES_MAX = 100

type DomainsCall<Body = unknown> = ConsoleCall<typeof DOMAINS, Body, unknown>
type WebhookCall<Body = unknown> = ConsoleCall<typeof WEBHOOK, Body, unknown>

/** Audio-URL domains, the webhook with a test delivery, and deliveries that wait or were given up. */
export function settingsEndpoints(context: ConsoleContext): ConsoleRoute[] {
  return [
    consoleEndpoint(context, 'GET', DOMAINS, {}, showDomains),
    consoleEndpoint(context, 'PUT', DOMAINS, { body: DomainsBody }, putDomains),
    consoleEndpoint(context, 'GET', WEBHOOK, {}, showWebhook),
    consoleEndpoint(context, 'PUT', WEBHOOK, { body: WebhookBody }, putWebhook),
    consoleEndpoint(context, 'DELETE', WEBHOOK, {}, deleteWebhook),
    consoleEndpoint(context, 'POST', `${WEBHOOK}/test`, {}, postTest),
    consoleEndpoint(context, 'GET', DELIVERIES, {}, listDeliveries),
    consoleEndpoint(context, 'POST', REDELIVER, {}, postRedelivery),
  ]
}

async function showDomains({ context, params }: DomainsCall): Promise<DomainsAnswer> {
  const { settings } = context.deps.services.state
  return domainsAnswer(context, await settings.audioUrlDomains(params.workspace))
}

async function putDomains(call: DomainsCall<Static<typeof DomainsBody>>): Promise<DomainsAnswer> {
  const { context, viewer, params, body } = call
  const input = { workspace: params.workspace, domains: body.domains }
  return domainsAnswer(context, await replaceAudioUrlDomains(viewer.actor, input, context.admin))
}

function domainsAnswer({ deps }: ConsoleContext, domains: readonly string[]): DomainsAnswer {
  const { audioUrlDomains } = deps.services.snapshot()
  return { domains, max_domains: AUDIO_URL_DOMAINS_MAX, platform_domains: audioUrlDomains }
}

async function showWebhook({ context, params }: WebhookCall): Promise<WebhookAnswer> {
  const webhook = await context.deps.services.state.settings.webhook(params.workspace)
  return { webhook: webhook && { url: webhook.url, created_at: timestamp(webhook.createdAtMs) } }
}

/** The only answer that shows the secret. */
async function putWebhook(call: WebhookCall<Static<typeof WebhookBody>>): Promise<WebhookAnswer> {
  const { context, viewer, params, body } = call
  const input = { workspace: params.workspace, url: body.url }
  const set = await setWebhook(viewer.actor, input, context.admin)
  const webhook = { url: set.url, created_at: timestamp(set.createdAtMs) }
  return { webhook, signing_secret: set.signingSecret }
}

async function deleteWebhook({ context, viewer, params }: WebhookCall): Promise<WebhookAnswer> {
  await removeWebhook(viewer.actor, params, context.admin)
  return { webhook: null }
}

async function postTest({ context, viewer, params }: WebhookCall): Promise<WebhookTestAnswer> {
  const { ok, status, milliseconds, reason } = await testWebhook(viewer.actor, params, context.admin)
  return { ok, status, milliseconds, reason: ok ? null : reason }
}

async function listDeliveries({ context, params }: ConsoleCall<typeof DELIVERIES, unknown, unknown>) {
  const events = await context.deps.services.state.outbox.list(params.workspace, DELIVERIES_MAX)
  // Alerts are of no workspace.
  const ofJobs = events.flatMap((event) =>
    event.status === 'alert' ? [] : [{ ...event, status: event.status }],
  )
  return { deliveries: ofJobs.map(deliveryAnswer) }
}

async function postRedelivery(call: ConsoleCall<typeof REDELIVER, unknown, unknown>) {
  await redeliver(call.viewer.actor, jobName(call), call.context.admin)
  return { redelivered: true }
}

function deliveryAnswer(
  event: EventView & { readonly status: Exclude<EventView['status'], 'alert'> },
): DeliveryAnswer {
  const { id, jobId, status, attempts, reason } = event
  return {
    id,
    job_id: jobId,
    status,
    occurred_at: timestamp(event.occurredAtMs),
    attempts,
    next_attempt_at: timestamp(event.nextAttemptAtMs),
    reason,
  }
}
