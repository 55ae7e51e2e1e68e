import { randomBytes } from 'node:crypto'
import { Type } from 'typebox'
import { GatewayError } from '../errors.ts'
import type { EdgeRoute } from '../inbound/server.ts'
import { type SealContext, seal } from '../sealing.ts'
import type { Doors } from './endpoint.ts'
import { jsonReply } from './json-reply.ts'
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
    workspaceEndpoint(doors, 'PUT', PATH, (call) => putWebhook(call, options)),
    workspaceEndpoint(doors, 'GET', PATH, async ({ services, workspace }) => {
      const webhook = await services.state.settings.webhook(workspace)
      if (webhook === null) throw new GatewayError('NOT_FOUND', 'the workspace has no webhook')
      return jsonReply({ url: webhook.url, created_at: timestamp(webhook.createdAtMs) })
    }),
    workspaceEndpoint(doors, 'DELETE', PATH, async ({ services, workspace }) => {
      return jsonReply({ deleted: await services.state.settings.removeWebhook(workspace) })
    }),
  ]
}

async function putWebhook(call: WorkspaceCall, { secretKeys, insecure }: WebhookOptions) {
  const { services, workspace } = call
  const body = await readSettings(WebhookBody, call)
  const url = readWebhookUrl(body.url, insecure)
  const signingSecret = `whsec_${randomBytes(SECRET_BYTES).toString('base64')}`
  const secret = seal(secretKeys, signingSecret, webhookSecretContext(workspace))
  const createdAtMs = Date.now()
  await services.state.settings.putWebhook(workspace, { url, secret, createdAtMs }, KEEP_SECRET_MS)
  const reply = await jsonReply({ url, signing_secret: signingSecret, created_at: timestamp(createdAtMs) })
  return { ...reply, headers: { ...reply.headers, 'cache-control': 'no-store' } }
}

/** RFC 3339, UTC, with milliseconds. */
function timestamp(epochMs: number): string {
  return new Date(epochMs).toISOString()
}
