import type { EventView } from '../schema/outbox.ts'
import { parse, whole } from './arguments.ts'
import { type Desk, environmentOf } from './desk.ts'
import { withState } from './state.ts'
import { table } from './table.ts'

const FLAGS = {
  workspace: { type: 'string' },
  limit: { type: 'string' },
  json: { type: 'boolean' },
} as const

const LIMIT_DEFAULT = 50
const LIMIT_MAX = 10_000

/**
 * `larkway webhooks list`: what waits for its next attempt, and what was given up.
 *
 * @throws UsageError, CommandFailure
 */
export async function listWebhooks(args: readonly string[], desk: Desk): Promise<void> {
  const { workspace = null, limit, json } = parse(args, FLAGS, 0).values
  const most = whole('limit', limit, LIMIT_MAX) ?? LIMIT_DEFAULT
  const events = await withState(environmentOf(desk), ({ outbox }) => outbox.list(workspace, most))
  desk.print(json === true ? `${JSON.stringify(events.map(inJson), null, 2)}\n` : rendered(events))
}

function rendered(events: readonly EventView[]): string {
  const cells = events.map((event) => [
    event.jobId,
    event.workspace,
    event.status,
    timeOf(event.occurredAtMs),
    String(event.attempts),
    event.nextAttemptAtMs === null ? 'given up' : timeOf(event.nextAttemptAtMs),
    event.reason ?? '-',
  ])
  return table([['JOB', 'WORKSPACE', 'STATUS', 'ENDED', 'ATTEMPTS', 'NEXT ATTEMPT', 'LAST ONE'], ...cells])
}

function inJson({
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
    occurred_at: timeOf(occurredAtMs),
    attempts,
    next_attempt_at: nextAttemptAtMs === null ? null : timeOf(nextAttemptAtMs),
    reason,
  }
}

function timeOf(ms: number): string {
  return new Date(ms).toISOString()
}
