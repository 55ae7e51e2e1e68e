import { jobPartition } from '../contracts/ids.ts'
import type { EventView } from '../contracts/outbox.ts'
import { readSecretKeys } from '../contracts/secrets.ts'
import { redeliver, testWebhook } from '../gateway/admin/webhook.ts'
import { json, parse, required, rfc3339, table, UsageError, whole } from './arguments.ts'
import type { CliContext } from './context.ts'
import { actions, EXIT_HELP, environmentOf, STATE_HELP, withAdmin, withState } from './context.ts'

const USAGE = `larkway webhooks <action>

Webhook deliveries, which announce the end of transcription jobs.

  list [--workspace W] [--limit N] [--json]
                       list deliveries that wait for their next attempt, or were given up in the last 7 days; newest
                       first, at most N (default 50)
  redeliver JOB        announce the end of a transcription job again, as long as its record is kept; receivers see the
                       same event id
  test --workspace W   send an event of the type webhook.test to the workspace's webhook, signed like any other; the
                       exit code is 1 when it is not answered with 2xx

${STATE_HELP} A test is signed with the secret that LARKWAY_SECRET_KEYS opens, else the key in LARKWAY_DATA.

${EXIT_HELP}
`

/** `larkway webhooks`: announcements of jobs that have ended. @throws UsageError, CommandFailure */
export const webhooks = actions('webhooks', USAGE, { list, redeliver: announceAgain, test })

async function announceAgain(args: readonly string[], context: CliContext): Promise<void> {
  const [id] = parse(args, {}, 1).positionals
  if (id === undefined || !id.startsWith('tj_') || jobPartition(id) === null)
    throw new UsageError('webhooks redeliver takes the id of a transcription job, tj_…')
  await withAdmin(context, { command: 'webhooks redeliver' }, ({ actor, admin }) =>
    redeliver(actor, { id, workspace: null }, admin),
  )
  context.print(`the end of ${id} is announced again within seconds\n`)
}

/** Makes one delivery from this machine. @returns the exit code: 1 when the answer is not 2xx */
async function test(args: readonly string[], context: CliContext): Promise<number> {
  const { values } = parse(args, { workspace: { type: 'string' } }, 0)
  const workspace = required('webhooks test', 'workspace', values.workspace)
  const { LARKWAY_SECRET_KEYS, LARKWAY_DATA } = environmentOf(context)
  const options = { command: 'webhooks test' }
  const { id, ok, reason, milliseconds } = await withAdmin(context, options, async ({ actor, admin }) => {
    const secretKeys = await readSecretKeys(LARKWAY_SECRET_KEYS, LARKWAY_DATA)
    return testWebhook(actor, { workspace }, { ...admin, webhooks: { ...admin.webhooks, secretKeys } })
  })
  context.print(`${id}: ${reason}, after ${milliseconds} ms\n`)
  return ok ? 0 : 1
}

const LIST_FLAGS = {
  workspace: { type: 'string' },
  limit: { type: 'string' },
  json: { type: 'boolean' },
} as const
const LIMIT_DEFAULT = 50
const LIMIT_MAX = 10_000

async function list(args: readonly string[], context: CliContext): Promise<void> {
  const { workspace = null, limit, json: asJson } = parse(args, LIST_FLAGS, 0).values
  const most = whole('limit', limit, LIMIT_MAX) ?? LIMIT_DEFAULT
  const events = await withState(environmentOf(context), ({ outbox }) => outbox.list(workspace, most))
  context.print(asJson === true ? json(events.map(jsonEvent)) : eventTable(events))
}

function eventTable(events: readonly EventView[]): string {
  const cells = events.map((event) => [
    event.jobId,
    event.workspace,
    event.status,
    rfc3339(event.occurredAtMs),
    String(event.attempts),
    rfc3339(event.nextAttemptAtMs) ?? 'given up',
    event.reason ?? '-',
  ])
  return table([['JOB', 'WORKSPACE', 'STATUS', 'ENDED', 'ATTEMPTS', 'NEXT ATTEMPT', 'LAST ONE'], ...cells])
}

function jsonEvent({
  id,
  jobId,
  workspace,
  status,
  occurredAtMs,
  attempts,
  nextAttemptAtMs,
  reason,
}: EventView) {
  return {
    id,
    job_id: jobId,
    workspace,
    status,
    occurred_at: rfc3339(occurredAtMs),
    attempts,
    next_attempt_at: rfc3339(nextAttemptAtMs),
    reason,
  }
}
