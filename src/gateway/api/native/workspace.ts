import { type Static, type TObject, Type } from 'typebox'
import { Value } from 'typebox/value'
import { GatewayError } from '../../../contracts/errors.ts'
import { type WebhookOptions, workspaceAdmin } from '../../admin/actor.ts'
import { AUDIO_URL_DOMAINS_MAX, replaceAudioUrlDomains } from '../../admin/settings.ts'
import { removeWebhook, setWebhook } from '../../admin/webhook.ts'
import { readJson } from '../../edge/json-body.ts'
import type { Admitted, Dependencies, EndpointCall, RequestBody } from '../endpoint.ts'
import { endpoint } from '../endpoint.ts'
import { faultOf } from '../json-fault.ts'
import { jsonReply, timestamp } from '../json-reply.ts'
import {
  AudioUrlDomains,
  NewWebhook as NewWebhookShape,
  RemovedWebhook,
  Webhook,
} from '../openapi/answers.ts'
import { json } from '../openapi/operation.ts'

// Settings that a workspace manages itself: the domains that audio may be fetched from, and the webhook of its jobs.

/** Settings are small; a body over this is refused whatever `max_request_body_bytes` says. */
const MAX_BODY_BYTES = 64 * 1024

/** Settings of the key's own workspace, for keys with the scope `admin`: any other key is told there is no such one. */
const SETTINGS = { kind: 'none', recorded: false, tag: 'Account', scope: 'admin', ofWorkspace: true } as const

/** A small JSON body, of which members that the schema does not name are ignored. */
function settingsBody<Shape extends TObject>(schema: Shape): RequestBody<Static<Shape>> {
  return { contents: [json(schema)], receive: (request) => readSettings(schema, request) }
}

/** @throws GatewayError of `readJson`, INVALID_REQUEST naming the field at fault */
function readSettings<Shape extends TObject>(
  schema: Shape,
  { exchange, context: { principal }, deps: { services } }: Admitted,
): Promise<Static<Shape>> {
  const maxBytes = Math.min(MAX_BODY_BYTES, services.snapshot().limits.max_request_body_bytes)
  const options = { budget: services.budget, maxBytes, workspace: principal.workspace.id }
  const read = (value: unknown) => {
    if (!Value.Check(schema, value)) throw faultOf(schema, value)
    return value
  }
  return readJson(exchange, options, read).catch((error: unknown) => {
    throw tooLarge(error, maxBytes) ?? error
  })
}

/** The refusal of a large body would name the limit of all bodies, which this one is far from. */
function tooLarge(error: unknown, maxBytes: number): GatewayError | null {
  if (!(error instanceof GatewayError) || error.code !== 'REQUEST_TOO_LARGE') return null
  const { limit: _, ...details } = error.extra.details ?? {}
  return new GatewayError('REQUEST_TOO_LARGE', `the body is over ${maxBytes} bytes`, { details })
}

export const DomainsBody = Type.Object({
  domains: Type.Array(Type.String(), {
    description:
      'hosts that audio may be fetched from: host names, or `*.` and a host name for its subdomains',
  }),
})

const DOMAINS = {
  ...SETTINGS,
  path: '/workspace/:tenant_id/audio-url-domains',
  errors: ['NOT_FOUND'],
} as const

export const showAudioUrlDomains = endpoint({
  ...DOMAINS,
  method: 'GET',
  id: 'showAudioUrlDomains',
  summary: 'List allowed audio domains',
  answers: [{ status: 200, description: 'the list', contents: [json(AudioUrlDomains)] }],
  async handle({ context: { principal }, deps: { services } }) {
    return domainsReply(await services.state.settings.audioUrlDomains(principal.workspace.id))
  },
})

/** Replaces the list as a whole. */
export const putAudioUrlDomains = endpoint({
  ...DOMAINS,
  method: 'PUT',
  id: 'replaceAudioUrlDomains',
  summary: 'Replace allowed audio domains',
  body: settingsBody(DomainsBody),
  answers: [{ status: 200, description: 'the list as stored', contents: [json(AudioUrlDomains)] }],
  async handle({ context: { principal }, deps: { services }, body: { domains } }) {
    const input = { workspace: principal.workspace.id, domains }
    return domainsReply(await replaceAudioUrlDomains(workspaceAdmin(principal), input, services))
  },
})

function domainsReply(domains: readonly string[]) {
  return jsonReply({ domains, max_domains: AUDIO_URL_DOMAINS_MAX })
}

export const WebhookBody = Type.Object({
  url: Type.String({ minLength: 1, description: 'https URL that is called when a job has ended' }),
})

/** Endpoints that set webhooks need to know how these are sealed. */
export interface WebhookNeeds extends Dependencies {
  readonly webhooks: WebhookOptions
}

const WEBHOOK = { ...SETTINGS, path: '/workspace/:tenant_id/stt-webhook', errors: ['NOT_FOUND'] } as const

/** The only answer that shows the secret. */
export const putWebhook = endpoint({
  ...WEBHOOK,
  method: 'PUT',
  id: 'setWebhook',
  summary: 'Set the webhook',
  description:
    'Creates a new signing secret each time. The previous one keeps signing for another 24 hours, so that ' +
    'receivers can switch over.',
  body: settingsBody(WebhookBody),
  answers: [{ status: 200, description: 'the webhook and its secret', contents: [json(NewWebhookShape)] }],
  async handle(call: EndpointCall<Static<typeof WebhookBody>, WebhookNeeds>) {
    const { context, deps, body } = call
    const { principal } = context
    const { services, webhooks } = deps
    const input = { workspace: principal.workspace.id, url: body.url }
    const set = await setWebhook(workspaceAdmin(principal), input, {
      ...{ state: services.state, webhooks, nowMs: services.clock.wallNow },
    })
    const reply = await jsonReply({
      url: set.url,
      signing_secret: set.signingSecret,
      created_at: timestamp(set.createdAtMs),
    })
    return { ...reply, headers: { ...reply.headers, 'cache-control': 'no-store' } }
  },
})

export const showWebhook = endpoint({
  ...WEBHOOK,
  method: 'GET',
  id: 'showWebhook',
  summary: 'Get the webhook',
  answers: [{ status: 200, description: 'the webhook, without its secret', contents: [json(Webhook)] }],
  async handle({ context: { principal }, deps: { services } }) {
    const webhook = await services.state.settings.webhook(principal.workspace.id)
    if (webhook === null) throw new GatewayError('NOT_FOUND', 'the workspace has no webhook')
    return jsonReply({ url: webhook.url, created_at: timestamp(webhook.createdAtMs) })
  },
})

/** No error when there was none, so that it can be sent again when its answer was lost. */
export const deleteWebhook = endpoint({
  ...WEBHOOK,
  method: 'DELETE',
  id: 'removeWebhook',
  summary: 'Remove the webhook',
  answers: [{ status: 200, description: 'whether there was a webhook', contents: [json(RemovedWebhook)] }],
  async handle({ context: { principal }, deps: { services } }) {
    const input = { workspace: principal.workspace.id }
    return jsonReply({ deleted: await removeWebhook(workspaceAdmin(principal), input, services) })
  },
})
