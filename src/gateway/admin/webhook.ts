import { randomBytes } from 'node:crypto'
import { GatewayError } from '../../contracts/errors.ts'
import { seal } from '../../contracts/sealing.ts'
import type { NewWebhook, WorkspaceSettings } from '../../contracts/settings.ts'
import { invalid, invalidField } from '../edge/refusals.ts'
import { judgeWebhookUrl } from '../outbound/remote-url.ts'
import { tryWebhook, type WebhookTrial } from '../webhooks/send.ts'
import { webhookSecretContext, webhookTarget } from '../webhooks/target.ts'
import { type AdminActor, type AdminContext, requireOwner } from './actor.ts'
import { audit, workspaceChange } from './audit.ts'
import { type JobName, jobChange, jobOf } from './jobs.ts'

const SECRET_BYTES = 32
/** How long a replaced secret still signs beside the new one, so that receivers can change over without a gap. */
const KEEP_SECRET_MS = 24 * 60 * 60 * 1000

interface WebhookInput {
  readonly workspace: string
}

/** A webhook that was just set. Its secret is shown now or never. */
export interface WebhookSet {
  readonly url: string
  readonly signingSecret: string
  readonly createdAtMs: number
}

/**
 * Sets the webhook of a workspace, with a new secret.
 *
 * @throws GatewayError NOT_FOUND, INVALID_REQUEST naming `url`, DEPENDENCY_UNAVAILABLE
 */
export async function setWebhook(
  actor: AdminActor,
  input: WebhookInput & { readonly url: string },
  { state: { settings, catalog }, webhooks, nowMs }: Pick<AdminContext, 'state' | 'webhooks' | 'nowMs'>,
): Promise<WebhookSet> {
  const { workspace } = input
  requireOwner(actor, workspace)
  const url = checkedUrl(input.url, webhooks.insecure)
  const signingSecret = `whsec_${randomBytes(SECRET_BYTES).toString('base64')}`
  const secret = seal(webhooks.secretKeys, signingSecret, webhookSecretContext(workspace))
  const createdAtMs = nowMs()
  const before = auditedWebhook(await settings.webhook(workspace))
  const after = auditedWebhook({ url, createdAtMs })
  // The path of the URL may be a secret of the receiver.
  const detail = `to ${new URL(url).host}, with a new secret`
  await audit(catalog, actor, { ...workspaceChange('webhook.set', workspace), before, after, detail })
  await settings.putWebhook(workspace, { url, secret, createdAtMs }, KEEP_SECRET_MS)
  return { url, signingSecret, createdAtMs }
}

/**
 * Removes the webhook of a workspace. It is no error when there is none, so that a lost answer can be asked for again.
 *
 * @returns whether there was one
 * @throws GatewayError NOT_FOUND, DEPENDENCY_UNAVAILABLE
 */
export async function removeWebhook(
  actor: AdminActor,
  { workspace }: WebhookInput,
  { state: { settings, catalog } }: Pick<AdminContext, 'state'>,
): Promise<boolean> {
  requireOwner(actor, workspace)
  const before = auditedWebhook(await settings.webhook(workspace))
  if (before !== null)
    await audit(catalog, actor, { ...workspaceChange('webhook.remove', workspace), before })
  return settings.removeWebhook(workspace)
}

/** Workspaces whose webhook this process is testing, by their state. */
const testing = new WeakMap<Pick<WorkspaceSettings, 'webhook'>, Set<string>>()

/**
 * Delivers one test event, past the same address guard and with the same headers as any other. One at a time, so that
 * no one keeps many connections busy with targets that do not answer.
 *
 * @throws GatewayError NOT_FOUND, RATE_LIMITED, DEPENDENCY_UNAVAILABLE
 */
export async function testWebhook(
  actor: AdminActor,
  { workspace }: WebhookInput,
  { state: { settings, catalog }, webhooks, sending }: Pick<AdminContext, 'state' | 'webhooks' | 'sending'>,
): Promise<WebhookTrial> {
  requireOwner(actor, workspace)
  const busy = testing.get(settings) ?? new Set()
  testing.set(settings, busy)
  if (busy.has(workspace))
    throw new GatewayError('RATE_LIMITED', 'a test of the webhook is under way already')
  busy.add(workspace)
  try {
    const target = await webhookTarget(settings, webhooks.secretKeys, workspace)
    if (target === null) throw new GatewayError('NOT_FOUND', 'the workspace has no webhook')
    await audit(catalog, actor, workspaceChange('webhook.test', workspace))
    return await tryWebhook(target, sending)
  } finally {
    busy.delete(workspace)
  }
}

/**
 * Announces the end of a transcription job again, as long as its record is kept. Receivers see the same event id.
 *
 * @throws GatewayError JOB_NOT_FOUND, INVALID_REQUEST for a job that announces nothing, DEPENDENCY_UNAVAILABLE
 */
export async function redeliver(
  actor: AdminActor,
  name: JobName,
  context: Pick<AdminContext, 'state' | 'signals'>,
): Promise<void> {
  const job = await jobOf(actor, name, context)
  if (job.kind !== 'transcription') throw invalid('jobs of the queue announce nothing to webhooks')
  if (job.endedAtMs === null) throw invalid('the job has not ended: there is nothing to announce yet')
  await audit(context.state.catalog, actor, jobChange('webhook.redeliver', job))
  // It may have been purged in between.
  if (!(await context.state.outbox.redeliver(job.id))) throw new GatewayError('JOB_NOT_FOUND')
  context.signals.ended()
}

/**
 * The URL of a webhook as it will be called.
 *
 * Addresses that the text itself gives away are refused here, as a service to its author. It protects nothing: a public
 * name may resolve to any address, today or later, so every delivery checks the address again after the look-up.
 */
function checkedUrl(text: string, insecure: boolean): string {
  const judged = judgeWebhookUrl(text, insecure)
  if ('issue' in judged) throw invalidField('url', judged.issue)
  return judged.url.href
}

/** The moment tells two webhooks with one URL apart: each has its own secret. */
function auditedWebhook(webhook: Pick<NewWebhook, 'url' | 'createdAtMs'> | null): object | null {
  return webhook && { url: webhook.url, createdAtMs: webhook.createdAtMs }
}
