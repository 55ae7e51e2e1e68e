import { newId } from '../ids.ts'
import { createWebhookPoster } from '../outbound/post-webhook.ts'
import { reasonOf } from '../routes/jobs/delivery-outcome.ts'
import { attemptWebhook } from '../routes/jobs/webhook-attempt.ts'
import { testBody } from '../routes/jobs/webhook-message.ts'
import { webhookTarget } from '../routes/jobs/webhook-target.ts'
import { readSecretKeys } from '../secrets.ts'
import { signWebhook } from '../workers/webhook-signature.ts'
import { CommandFailure, parse, required } from './arguments.ts'
import { type Desk, environmentOf } from './desk.ts'
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
  const target = await withState(environment, async ({ settings }) =>
    webhookTarget(settings, await readSecretKeys(LARKWAY_SECRET_KEYS, LARKWAY_DATA), workspace),
  )
  if (target === null) throw new CommandFailure(`the workspace "${workspace}" has no webhook`)
  const id = newId('evt')
  const beganMs = performance.now()
  const posted = await attemptWebhook(
    target,
    { id, body: testBody(Date.now()) },
    { post: createWebhookPoster({ insecure }), signer: { sign: async (signable) => signWebhook(signable) } },
  )
  desk.print(`${id}: ${reasonOf(posted)}, after ${Math.round(performance.now() - beganMs)} ms\n`)
  return posted.kind === 'answered' && posted.status >= 200 && posted.status <= 299 ? 0 : 1
}
