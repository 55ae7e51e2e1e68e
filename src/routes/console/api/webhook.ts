import type { Static } from 'typebox'
import { GatewayError } from '../../../errors.ts'
import type { EdgeRoute } from '../../../inbound/server.ts'
import { noteChange } from '../../audit-note.ts'
import { webhookTarget } from '../../jobs/webhook-target.ts'
import { tryWebhook } from '../../jobs/webhook-trial.ts'
import { timestamp } from '../../timestamp.ts'
import { putWebhook, removeWebhook, WebhookBody } from '../../workspace-webhook.ts'
import type { ConsoleDesk } from '../desk.ts'
import { type ConsoleCall, consoleEndpoint } from '../endpoint.ts'
import type { WebhookAnswer, WebhookTestAnswer } from './answers.ts'

const PATH = '/workspaces/:workspace/webhook'

type Call<Body = unknown> = ConsoleCall<typeof PATH, Body, unknown>

/** The webhook of a workspace, as the workspace API has it, and a delivery that tries it out. */
export function webhookEndpoints(desk: ConsoleDesk): EdgeRoute[] {
  /** Workspaces whose webhook this node is trying out. */
  const trying = new Set<string>()
  return [
    consoleEndpoint(desk, 'GET', PATH, {}, showWebhook),
    consoleEndpoint(desk, 'PUT', PATH, { body: WebhookBody }, setWebhook),
    consoleEndpoint(desk, 'DELETE', PATH, {}, dropWebhook),
    consoleEndpoint(desk, 'POST', `${PATH}/test`, {}, (call) => testWebhook(call, trying)),
  ]
}

async function showWebhook({ desk, params }: Call): Promise<WebhookAnswer> {
  const webhook = await desk.doors.services.state.settings.webhook(params.workspace)
  return { webhook: webhook && { url: webhook.url, created_at: timestamp(webhook.createdAtMs) } }
}

/** The only answer that shows the secret. */
async function setWebhook(call: Call<Static<typeof WebhookBody>>): Promise<WebhookAnswer> {
  const { desk, viewer, params, body } = call
  const { state } = desk.doors.services
  const set = await putWebhook(state, params.workspace, body.url, viewer.actor, desk.webhooks)
  const webhook = { url: set.url, created_at: timestamp(set.createdAtMs) }
  return { webhook, signing_secret: set.signingSecret }
}

async function dropWebhook({ desk, viewer, params }: Call): Promise<WebhookAnswer> {
  await removeWebhook(desk.doors.services.state, params.workspace, viewer.actor)
  return { webhook: null }
}

/**
 * One at a time, so that nobody keeps many connections busy with targets that do not answer.
 *
 * @throws GatewayError NOT_FOUND when there is no webhook, RATE_LIMITED
 */
async function testWebhook(call: Call, trying: Set<string>): Promise<WebhookTestAnswer> {
  const { desk, viewer, params } = call
  const { workspace } = params
  if (trying.has(workspace)) throw new GatewayError('RATE_LIMITED', 'the webhook is being tried out already')
  trying.add(workspace)
  try {
    const { settings } = desk.doors.services.state
    const target = await webhookTarget(settings, desk.webhooks.secretKeys, workspace)
    if (target === null) throw new GatewayError('NOT_FOUND', 'the workspace has no webhook')
    const note = { action: 'webhook.test', workspace, target: `workspace/${workspace}` }
    await noteChange(desk.records, { ...note, by: viewer.actor })
    const { ok, status, milliseconds, reason } = await tryWebhook(target, desk.sending)
    return { ok, status, milliseconds, reason: ok ? null : reason }
  } finally {
    trying.delete(workspace)
  }
}
