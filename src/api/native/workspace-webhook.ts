import { type Static, Type } from 'typebox'
import { type WebhookOptions, workspaceAdmin } from '../../admin/actor.ts'
import { removeWebhook, setWebhook } from '../../admin/webhook.ts'
import { GatewayError } from '../../errors.ts'
import { type Dependencies, type EndpointCall, endpoint } from '../endpoint.ts'
import { jsonReply, timestamp } from '../json-reply.ts'
import { NewWebhook as NewWebhookShape, RemovedWebhook, Webhook } from '../openapi/answers.ts'
import { json } from '../openapi/operation.ts'
import { SETTINGS, settingsBody } from './workspace.ts'

export const WebhookBody = Type.Object({
  url: Type.String({ minLength: 1, description: 'https URL that is called when a job has ended' }),
})

/** Endpoints that set webhooks need to know how these are sealed. */
export interface WebhookNeeds extends Dependencies {
  readonly webhooks: WebhookOptions
}

const SHARED = { ...SETTINGS, path: '/workspace/:tenant_id/stt-webhook', errors: ['NOT_FOUND'] } as const

/** The only answer that shows the secret. */
export const putWebhook = endpoint({
  ...SHARED,
  method: 'PUT',
  id: 'setWebhook',
  summary: 'Set the webhook',
  description:
    'Creates a new signing secret each time. The previous one keeps signing for another 24 hours, so that ' +
    'receivers can switch over.',
  body: settingsBody(WebhookBody),
  answers: [{ status: 200, description: 'the webhook and its secret', contents: [json(NewWebhookShape)] }],
  async handle(call: EndpointCall<Static<typeof WebhookBody>, WebhookNeeds>) {
    const { context, dependencies, body } = call
    const { principal } = context
    const { services, webhooks } = dependencies
    const input = { workspace: principal.workspace.id, url: body.url }
    const set = await setWebhook(workspaceAdmin(principal), input, { state: services.state, webhooks })
    const reply = await jsonReply({
      url: set.url,
      signing_secret: set.signingSecret,
      created_at: timestamp(set.createdAtMs),
    })
    return { ...reply, headers: { ...reply.headers, 'cache-control': 'no-store' } }
  },
})

export const showWebhook = endpoint({
  ...SHARED,
  method: 'GET',
  id: 'showWebhook',
  summary: 'Get the webhook',
  answers: [{ status: 200, description: 'the webhook, without its secret', contents: [json(Webhook)] }],
  async handle({ context: { principal }, dependencies: { services } }) {
    const webhook = await services.state.settings.webhook(principal.workspace.id)
    if (webhook === null) throw new GatewayError('NOT_FOUND', 'the workspace has no webhook')
    return jsonReply({ url: webhook.url, created_at: timestamp(webhook.createdAtMs) })
  },
})

/** No error when there was none, so that it can be sent again when its answer was lost. */
export const deleteWebhook = endpoint({
  ...SHARED,
  method: 'DELETE',
  id: 'removeWebhook',
  summary: 'Remove the webhook',
  answers: [{ status: 200, description: 'whether there was a webhook', contents: [json(RemovedWebhook)] }],
  async handle({ context: { principal }, dependencies: { services } }) {
    const input = { workspace: principal.workspace.id }
    return jsonReply({ deleted: await removeWebhook(workspaceAdmin(principal), input, services) })
  },
})
