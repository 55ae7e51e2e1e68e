import { eventPartition, jobPartition } from '../../../contracts/ids.ts'
import type { EventEnding, EventView, Outbox, WebhookEvent } from '../../../contracts/outbox.ts'
import type { Clock } from '../../../contracts/time.ts'
import { ALL_PARTITIONS, createSweep, listNewest, partitioned, placeOf } from './partitions.ts'
import { type Ask, replyInteger, replyList, replyText, replyTexts, script } from './script.ts'

const claimEvents = script('outbox/claim_events', {
  ...partitioned,
  args: ['limit', 'lease_ms', 'per_workspace', 'per_ailing'],
  reply: (reply) => replyList(reply, claimedEventOf),
})

const endEvent = script('outbox/end_event', {
  ...partitioned,
  args: ['job_id', 'attempts', 'ending', 'delay_ms', 'reason', 'keep_ms'],
  reply: (reply) => reply === 1,
})

const listEvents = script('outbox/list_events', {
  ...partitioned,
  args: ['workspace', 'limit', 'offset'],
  reply: (reply) => replyList(reply, eventView),
})

const redeliverEvent = script('outbox/redeliver_event', {
  ...partitioned,
  args: ['job_id'],
  reply: (reply) => reply === 1,
})

const countGivenUp = script('outbox/count_given_up', {
  ...partitioned,
  args: ['kept_past_ms'],
  reply: (reply) => replyTexts(reply).map(replyText),
})

/** Events in Redis, each in the partition of its job. */
export function createRedisOutbox(ask: Ask, clock: Clock): Outbox {
  const sweep = createSweep(clock)
  return {
    claim: ({ limit, leaseMs, perWorkspace, perAiling }) =>
      sweep<WebhookEvent>(limit, async (partition, share) => {
        const inputs = {
          ...placeOf(partition),
          ...{ limit: share, lease_ms: leaseMs, per_workspace: perWorkspace, per_ailing: perAiling },
        }
        const [more, items] = await ask(claimEvents(inputs))
        return { items, more: more === 1 }
      }),
    async end({ jobId, attempts }, ending) {
      const partition = eventPartition(jobId)
      if (partition === null) return false
      const inputs = { ...placeOf(partition), job_id: jobId, attempts, ...endInputs(ending) }
      return ask(endEvent(inputs))
    },
    list: (workspace, limit) =>
      listNewest<EventView>(workspace, limit, {
        idOf: ({ jobId }) => jobId,
        atMsOf: ({ occurredAtMs }) => occurredAtMs,
        look: (place, range) => ask(listEvents({ ...place, workspace: workspace ?? '', ...range })),
      }),
    async redeliver(jobId) {
      const partition = jobPartition(jobId)
      if (partition === null) return false
      return ask(redeliverEvent({ ...placeOf(partition), job_id: jobId }))
    },
    async givenUp(keptPastMs) {
      const counting = ALL_PARTITIONS.map((partition) =>
        ask(countGivenUp({ ...placeOf(partition), kept_past_ms: keptPastMs })),
      )
      const counts = new Map<string, number>()
      for (const workspace of (await Promise.all(counting)).flat())
        counts.set(workspace, (counts.get(workspace) ?? 0) + 1)
      return [...counts].map(([workspace, events]) => ({ workspace, events }))
    },
  }
}

function endInputs(ending: EventEnding) {
  return {
    ending: ending.state,
    delay_ms: ending.state === 'retry' ? ending.delayMs : 0,
    reason: 'reason' in ending ? ending.reason : '',
    keep_ms: ending.state === 'given_up' ? ending.keepMs : 0,
  }
}

function eventOf([jobId, id, workspace, status, occurred, attempts]: readonly (
  | string
  | null
)[]): WebhookEvent {
  return {
    id: replyText(id),
    jobId: replyText(jobId),
    workspace: replyText(workspace),
    status: replyText(status) as WebhookEvent['status'],
    occurredAtMs: replyInteger(occurred),
    attempts: replyInteger(attempts),
  }
}

function claimedEventOf(item: unknown): WebhookEvent {
  const texts = replyTexts(item)
  const [body = null] = texts.slice(6)
  return { ...eventOf(texts), ...(body === null ? {} : { body }) }
}

function eventView(item: unknown): EventView {
  const texts = replyTexts(item)
  const [nextAttempt = null, reason = null] = texts.slice(6)
  return {
    ...eventOf(texts),
    nextAttemptAtMs: nextAttempt === null ? null : replyInteger(nextAttempt),
    reason,
  }
}
