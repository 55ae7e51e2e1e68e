import { randomBytes } from 'node:crypto'
import { Type } from 'typebox'
import { GatewayError } from '../errors.ts'
import type { Reply } from '../inbound/exchange.ts'
import type { EdgeRoute } from '../inbound/server.ts'
import type { Actor } from '../schema/catalog-store.ts'
import type { NewWebhook } from '../schema/settings.ts'
import type { State } from '../schema/state.ts'
import { type SealContext, seal } from '../sealing.ts'
import { actorOf, noteChange } from './audit-note.ts'
import type { Doors } from './endpoint.ts'
import { jsonReply } from './json-reply.ts'
import { timestamp } from './timestamp.ts'
import { readSettings, type WorkspaceCall, workspaceEndpoint } from './workspace.ts'
import { readWebhookUrl } from './workspace-webhook-url.ts'

const PATH = '/stt-webhook'
const SECRET_BYTES = 32
/** How long a replaced secret still signs beside the new one, so that receivers can change over without a gap. */
const KEEP_SECRET_MS = 24 * 60 * 60 * 1000

/** What the webhooks of workspaces are kept with. */
export interface WebhookOptions {
  /** The first seals; see `readSecretKeys`. */
  readonly secretKeys: readonly Buffer[]
  /** For development: also takes `http://127.0.0.1` and `http://localhost`. */
  readonly insecure: boolean
}

export const WebhookBody = Type.Object({
  url: Type.String({ minLength: 1, description: 'https URL that is called when a job has ended' }),
})

/** What the secrets of a workspace's webhook are sealed for. */
export function webhookSecretContext(workspace: string): SealContext {
  return { purpose: 'stt-webhook', workspace }
}

/**
 * PUT, GET and DELETE of the webhook that is called when a transcription job has ended. A PUT makes a new secret each
 * time and is the only answer that shows it. A DELETE says whether there was a webhook, and is no error when there was
 * none, so that it can be sent again when its answer was lost.
 */
export function sttWebhook(doors: Doors, options: WebhookOptions): EdgeRoute[] {
  return [
    workspaceEndpoint(doors, 'PUT', PATH, (call) => put(call, options)),
    workspaceEndpoint(doors, 'GET', PATH, async ({ services, workspace }) => {
      const webhook = await services.state.settings.webhook(workspace)
      if (webhook === null) throw new GatewayError('NOT_FOUND', 'the workspace has no webhook')
      return jsonReply({ url: webhook.url, created_at: timestamp(webhook.createdAtMs) })
    }),
    workspaceEndpoint(doors, 'DELETE', PATH, async ({ services, workspace, principal }) => {
      return jsonReply({ deleted: await removeWebhook(services.state, workspace, actorOf(principal, 'api')) })
    }),
  ]
}

async function put(call: WorkspaceCall, options: WebhookOptions): Promise<Reply> {
  const { services, workspace, principal } = call
  const { url: text } = await readSettings(WebhookBody, call)
  const by = actorOf(principal, 'api')
  const { url, signingSecret, createdAtMs } = await putWebhook(services.state, workspace, text, by, options)
  const reply = await jsonReply({ url, signing_secret: signingSecret, created_at: timestamp(createdAtMs) })
  return { ...reply, headers: { ...reply.headers, 'cache-control': 'no-store' } }
}

type SettingsState = Pick<State, 'settings' | 'catalog'>

/** A webhook that was just set. The secret is shown now or never. */
export interface SetWebhook {
  readonly url: string
  readonly signingSecret: string
  readonly createdAtMs: number
}

/**
 * Sets the webhook of a workspace, with a new secret.
 *
 * @param text the URL as it was sent
 * @throws GatewayError INVALID_REQUEST, DEPENDENCY_UNAVAILABLE
 */
export async function putWebhook(
  { settings, catalog }: SettingsState,
  workspace: string,
  text: string,
  by: Actor,
  { secretKeys, insecure }: WebhookOptions,
): Promise<SetWebhook> {
  const url = readWebhookUrl(text, insecure)
  const signingSecret = `whsec_${randomBytes(SECRET_BYTES).toString('base64')}`
  const secret = seal(secretKeys, signingSecret, webhookSecretContext(workspace))
  const createdAtMs = Date.now()
  const before = notedWebhook(await settings.webhook(workspace))
  const note = { action: 'webhook.set', workspace, target: `workspace/${workspace}` }
  // What follows the host may be what opens the target.
  const detail = `to ${new URL(url).host}, with a new secret`
  await noteChange(catalog, { ...note, by, before, after: notedWebhook({ url, createdAtMs }), detail })
  await settings.putWebhook(workspace, { url, secret, createdAtMs }, KEEP_SECRET_MS)
  return { url, signingSecret, createdAtMs }
}

/** @returns whether there was one  @throws GatewayError DEPENDENCY_UNAVAILABLE */
export async function removeWebhook(
  { settings, catalog }: SettingsState,
  workspace: string,
  by: Actor,
): Promise<boolean> {
  const webhook = await settings.webhook(workspace)
  if (webhook !== null) {
    const note = { action: 'webhook.remove', workspace, target: `workspace/${workspace}` }
    await noteChange(catalog, { ...note, by, before: notedWebhook(webhook) })
  }
  return settings.removeWebhook(workspace)
}

/** What the hash on the audit list is made of: with its moment, since each one has another secret. */
function notedWebhook(webhook: Pick<NewWebhook, 'url' | 'createdAtMs'> | null): object | null {
  return webhook && { url: webhook.url, createdAtMs: webhook.createdAtMs }
}
