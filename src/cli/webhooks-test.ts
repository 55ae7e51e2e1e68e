import { createWebhookPoster } from '../outbound/post-webhook.ts'
import { noteChange } from '../routes/audit-note.ts'
import { webhookTarget } from '../routes/jobs/webhook-target.ts'
import { tryWebhook } from '../routes/jobs/webhook-trial.ts'
import { readSecretKeys } from '../secrets.ts'
import { signWebhook } from '../workers/webhook-signature.ts'
import { CommandFailure, parse, required } from './arguments.ts'
import { commandActor, type Desk, environmentOf } from './desk.ts'
import { withState } from './state.ts'

/**
 * `larkway webhooks test`: one delivery, from this machine, past the same guard and with the same headers as any other.
 *
 * @returns the exit code: 1 when the answer is not 2xx
 * @throws UsageError, CommandFailure for a workspace without a webhook
 */
export async function testWebhook(args: readonly string[], desk: Desk): Promise<number> {
  const { values } = parse(args, { workspace: { type: 'string' } }, 0)
  const workspace = required('webhooks test', 'workspace', values.workspace)
  const environment = environmentOf(desk)
  const { LARKWAY_SECRET_KEYS, LARKWAY_DATA, LARKWAY_INSECURE_WEBHOOKS: insecure } = environment
  const target = await withState(environment, async ({ settings, catalog }) => {
    const secretKeys = await readSecretKeys(LARKWAY_SECRET_KEYS, LARKWAY_DATA)
    const found = await webhookTarget(settings, secretKeys, workspace)
    const note = { action: 'webhook.test', workspace, target: `workspace/${workspace}` }
    if (found !== null) await noteChange(catalog, { ...note, by: commandActor('webhooks test') })
    return found
  })
  if (target === null) throw new CommandFailure(`the workspace "${workspace}" has no webhook`)
  const { id, ok, reason, milliseconds } = await tryWebhook(target, {
    post: createWebhookPoster({ insecure }),
    signer: { sign: async (signable) => signWebhook(signable) },
  })
  desk.print(`${id}: ${reason}, after ${milliseconds} ms\n`)
  return ok ? 0 : 1
}
