import { type SealContext, unseal } from '../../contracts/sealing.ts'
import type { StoredWebhook, WorkspaceSettings } from '../../contracts/settings.ts'

/** The address of a workspace's webhook and the secrets its events are signed with. */
export interface WebhookTarget {
  readonly url: string
  /** Newest first. Empty when the newest was sealed with a key that this node no longer has. */
  readonly secrets: readonly string[]
}

/**
 * Reads the present webhook of a workspace.
 *
 * @returns null when there is none
 * @throws GatewayError DEPENDENCY_UNAVAILABLE
 */
export async function webhookTarget(
  settings: Pick<WorkspaceSettings, 'webhook'>,
  secretKeys: readonly Buffer[],
  workspace: string,
): Promise<WebhookTarget | null> {
  const webhook = await settings.webhook(workspace)
  return webhook && { url: webhook.url, secrets: openedSecrets(webhook, secretKeys, workspace) }
}

/** Opens the secrets. The previous one may be missing, the newest may not. */
function openedSecrets(
  { secret, previous }: StoredWebhook,
  secretKeys: readonly Buffer[],
  workspace: string,
): string[] {
  const context = webhookSecretContext(workspace)
  const newest = unseal(secretKeys, secret, context)
  if (newest === null) return []
  const older = previous && unseal(secretKeys, previous.secret, context)
  return older === null ? [newest] : [newest, older]
}

/** Binds a sealed webhook secret to its workspace. */
export function webhookSecretContext(workspace: string): SealContext {
  return { purpose: 'stt-webhook', workspace }
}
