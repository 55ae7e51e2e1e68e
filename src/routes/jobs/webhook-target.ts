import type { StoredWebhook, WorkspaceSettings } from '../../schema/settings.ts'
import { open } from '../../sealing.ts'
import { webhookSecretContext } from '../workspace-webhook.ts'

/** Where the events of a workspace go, and what they are signed with. */
export interface WebhookTarget {
  readonly url: string
  /** The newest first. Empty when that one was sealed with a key that is not here any more. */
  readonly secrets: readonly string[]
}

/**
 * The webhook of a workspace as it stands now.
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

/** An older one that cannot be opened is left out: the newest does without it, and never the other way round. */
function openedSecrets(
  { secret, previous }: StoredWebhook,
  secretKeys: readonly Buffer[],
  workspace: string,
): string[] {
  const context = webhookSecretContext(workspace)
  const newest = open(secretKeys, secret, context)
  if (newest === null) return []
  const older = previous && open(secretKeys, previous.secret, context)
  return older === null ? [newest] : [newest, older]
}
