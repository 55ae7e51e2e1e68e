import type { Test } from 'tap'
import { newId, newJobId } from '../../../src/contracts/ids.ts'
import type { Job } from '../../../src/contracts/jobs.ts'
import type { EventClaiming, WebhookEvent } from '../../../src/contracts/outbox.ts'
import {
  CANCELLATION,
  claimingOf,
  FAILURE,
  jobsOf,
  KEEP,
  neighbours,
  OVER_MS,
  POISON,
  RETURN,
  SHORT_MS,
  SUCCESS,
  takeExpired,
} from '../../support/jobs-under-test.ts'
import { LONG_MS, newWorkspace, type StateUnderTest } from '../../support/state-under-test.ts'

type Start = (t: Test) => Promise<StateUnderTest>

const DELIVERED = { state: 'delivered' } as const
const retryIn = (delayMs: number, reason = 'status 500') => ({ state: 'retry', delayMs, reason }) as const
const giveUp = (keepMs: number) => ({ state: 'given_up', reason: 'status 410', keepMs }) as const

/** The announcements of jobs that have ended, wherever they are written. */
export function outboxContract(t: Test, start: Start): void {
  t.test('every end of a transcription job is announced once', (t) => announcesEnds(t, start))
  t.test('an event that was delivered is gone', (t) => delivers(t, start))
  t.test('an attempt that failed is followed by another', (t) => retries(t, start))
  t.test('an ending that is sent again changes nothing more', (t) => endsTwice(t, start))
  t.test('an event whose sender died is handed out again', (t) => outlivesSenders(t, start))
  t.test('a workspace has only so many deliveries at a time', (t) => boundsWorkspaces(t, start))
  t.test('one to which the last attempt failed has fewer', (t) => boundsAiling(t, start))
  t.test('workspaces take turns', (t) => takesTurns(t, start))
  t.test('those to which the last attempt failed come last', (t) => servesWellFirst(t, start))
  t.test('what was given up is kept for a while', (t) => keepsGivenUp(t, start))
  t.test('an event is delivered again', (t) => redelivers(t, start))
  t.test('one that is on its way is delivered again when it has arrived', (t) => redeliversInFlight(t, start))
  t.test('what has no event cannot be delivered again', (t) => redeliversNothing(t, start))
  t.test('the newest is listed first', (t) => lists(t, start))
}

async function outboxOf(t: Test, start: Start) {
  const under = await jobsOf(t, start)
  const { jobs, outbox, accept, take, end } = under
  return {
    ...under,
    /** A transcription job that has succeeded. There must be no other one to take. */
    announced: async (workspace = under.workspace): Promise<Job> => {
      await accept({ kind: 'transcription', workspace })
      const job = await end(await take(), SUCCESS)
      if (!job) throw new Error('the job did not end')
      return job
    },
    send: (over: Partial<EventClaiming> = {}): Promise<readonly WebhookEvent[]> =>
      outbox.claim({ limit: 100, leaseMs: LONG_MS, perWorkspace: 100, perAiling: 100, ...over }),
    purge: async (id: string) => {
      const marked = await takeExpired(jobs, 1, 100)
      if (!marked.some((job) => job.id === id)) throw new Error('the job is not over')
      await jobs.forget(id)
    },
  }
}

const idsOf = (events: readonly { readonly jobId: string }[]) => events.map(({ jobId }) => jobId)
const workspacesOf = (events: readonly WebhookEvent[]) => events.map(({ workspace }) => workspace).sort()

async function announcesEnds(t: Test, start: Start): Promise<void> {
  const { outbox, jobs, accept, take, end, cancel, pass, send, workspace } = await outboxOf(t, start)
  const ends: Record<string, Job | null> = {}
  const kind = 'transcription'
  for (const ending of [SUCCESS, FAILURE, CANCELLATION]) {
    await accept({ kind })
    ends[`ended ${ending.state}`] = await end(await take(), ending)
  }
  ends['cancelled in the queue'] = await cancel((await accept({ kind })).id)

  await accept({ kind })
  const returned = await take()
  await cancel(returned.id)
  ends['cancelled when it was put back'] = await end(returned, RETURN)

  const stalled = await accept({ kind })
  await take({ leaseMs: SHORT_MS })
  await pass(OVER_MS)
  t.same(await jobs.claim(claimingOf({ stalledMax: 1 })), [])
  ends['given up'] = await jobs.get(stalled.id)

  const forgotten = await accept({ kind })
  await take({ leaseMs: SHORT_MS })
  await cancel(forgotten.id)
  await pass(OVER_MS)
  t.same(await jobs.claim(claimingOf()), [])
  ends['cancelled when its worker had died'] = await jobs.get(forgotten.id)

  for (const ending of [SUCCESS, FAILURE]) {
    await accept()
    await end(await take(), ending)
  }
  await cancel((await accept()).id)

  t.match(ends['given up'], { status: 'failed', error: POISON })
  const events = await send()
  t.equal(events.length, Object.keys(ends).length, 'and none of jobs of the queue')
  for (const [how, job] of Object.entries(ends)) {
    t.same(
      events.find(({ jobId }) => jobId === job?.id),
      {
        ...{ id: job?.eventId, jobId: job?.id, workspace, status: job?.status },
        ...{ occurredAtMs: job?.endedAtMs, attempts: 1 },
      },
      how,
    )
  }
  t.same(await send(), [], 'none is taken twice')
  t.equal((await outbox.list(workspace, 100)).length, events.length)
}

async function delivers(t: Test, start: Start): Promise<void> {
  const { outbox, announced, send, pass } = await outboxOf(t, start)
  const [one, other] = [await announced(), await announced()]
  const events = await send({ leaseMs: SHORT_MS })
  t.same(idsOf(events).sort(), [one.id, other.id].sort())
  t.equal(await outbox.end({ jobId: one.id, attempts: 1 }, DELIVERED), true)
  t.equal(await outbox.end({ jobId: other.id, attempts: 1 }, { state: 'dropped' }), true)
  t.equal(await outbox.end({ jobId: one.id, attempts: 1 }, DELIVERED), false, 'there is none any more')
  t.same(await outbox.list(null, 10), [])
  await pass(OVER_MS)
  t.same(await send(), [])
}

async function retries(t: Test, start: Start): Promise<void> {
  const { outbox, announced, send, pass, workspace } = await outboxOf(t, start)
  const job = await announced()
  const [event] = await send()
  t.match(await outbox.list(workspace, 10), [{ jobId: job.id, attempts: 1, reason: null }])
  const failedAtMs = Date.now()
  t.equal(await outbox.end({ jobId: job.id, attempts: 1 }, retryIn(LONG_MS)), true)
  const [view] = await outbox.list(workspace, 10)
  t.same(view, { ...event, nextAttemptAtMs: view?.nextAttemptAtMs, reason: 'status 500' })
  const waitsMs = Number(view?.nextAttemptAtMs) - failedAtMs
  t.ok(Math.abs(waitsMs - LONG_MS) < 60_000, `by the clock of the state, in ${waitsMs} ms`)
  t.same(await send(), [], 'not before its time')

  t.equal(await outbox.redeliver(job.id), true)
  await send()
  t.equal(await outbox.end({ jobId: job.id, attempts: 1 }, retryIn(SHORT_MS)), true)
  await pass(OVER_MS)
  t.same(await send(), [{ ...event, attempts: 2 }])
  t.equal(await outbox.end({ jobId: job.id, attempts: 1 }, DELIVERED), false, 'of the attempt before')
  t.equal(await outbox.end({ jobId: job.id, attempts: 3 }, DELIVERED), false, 'of none that was')
  t.match(await outbox.list(null, 10), [{ jobId: job.id, attempts: 2, reason: 'status 500' }])
  t.equal(await outbox.end({ jobId: job.id, attempts: 2 }, DELIVERED), true)
}

async function endsTwice(t: Test, start: Start): Promise<void> {
  const { outbox, announced, send } = await outboxOf(t, start)
  for (const ending of [retryIn(LONG_MS), giveUp(LONG_MS)]) {
    const job = await announced()
    await send()
    t.equal(await outbox.end({ jobId: job.id, attempts: 1 }, ending), true)
    const before = await outbox.list(null, 10)
    t.equal(await outbox.end({ jobId: job.id, attempts: 1 }, ending), true, ending.state)
    t.same(await outbox.list(null, 10), before)
    t.equal(
      await outbox.end({ jobId: job.id, attempts: 1 }, DELIVERED),
      false,
      'another ending comes too late',
    )
    t.same(await outbox.list(null, 10), before)
    t.same(await send(), [])
  }
}

async function outlivesSenders(t: Test, start: Start): Promise<void> {
  const { outbox, announced, send, pass } = await outboxOf(t, start)
  const job = await announced()
  await send({ leaseMs: SHORT_MS })
  await pass(OVER_MS)
  t.match(await send({ leaseMs: SHORT_MS }), [{ jobId: job.id, attempts: 2 }])
  t.equal(await outbox.end({ jobId: job.id, attempts: 1 }, DELIVERED), false, 'the first sender is too late')
  await pass(OVER_MS)
  t.equal(
    await outbox.end({ jobId: job.id, attempts: 2 }, DELIVERED),
    true,
    'the second is late, but nobody else has it',
  )
  t.same(await send(), [])
}

async function boundsWorkspaces(t: Test, start: Start): Promise<void> {
  const { outbox, announced, send, pass } = await outboxOf(t, start)
  const other = newWorkspace()
  for (let i = 0; i < 6; i++) await announced()
  await announced(other)
  const most = { perWorkspace: 2 }
  const first = await send({ ...most, leaseMs: SHORT_MS })
  t.equal(first.length, 3)
  t.equal(first.filter(({ workspace }) => workspace === other).length, 1, 'others are not kept waiting')
  await pass(OVER_MS)
  const again = await send(most)
  t.equal(again.length, 3, 'places of senders that died are free')
  t.same(await send(most), [], 'all places are taken')
  const [one] = again.filter(({ workspace }) => workspace !== other)
  await outbox.end(one!, DELIVERED)
  const next = await send(most)
  t.equal(next.length, 1, 'an end makes room')
  t.notOk(again.some(({ jobId }) => jobId === next[0]?.jobId))
  await outbox.end(next[0]!, giveUp(LONG_MS))
  t.equal((await send(most)).length, 1, 'whatever it is')
}

async function boundsAiling(t: Test, start: Start): Promise<void> {
  const { outbox, announced, send } = await outboxOf(t, start)
  for (let i = 0; i < 6; i++) await announced()
  const claiming = { perWorkspace: 3, perAiling: 1 }
  const [first, second, third] = await send(claiming)
  await outbox.end(first!, retryIn(LONG_MS))
  t.same(await send(claiming), [], 'two are on their way, and one may')
  await outbox.end(second!, retryIn(LONG_MS))
  t.same(await send(claiming), [])
  await outbox.end(third!, retryIn(LONG_MS))
  const [trial, ...rest] = await send(claiming)
  t.same(rest, [], 'one at a time')
  await outbox.end(trial!, DELIVERED)
  t.equal((await send(claiming)).length, 2, 'it is well again')
}

async function takesTurns(t: Test, start: Start): Promise<void> {
  const { outbox, announced, send, pass } = await outboxOf(t, start)
  const [busy, ...quiet] = neighbours(4)
  for (let i = 0; i < 8; i++) await announced(busy)
  for (const workspace of quiet) for (let i = 0; i < 2; i++) await announced(workspace)
  const rounds: string[][] = []
  for (let i = 0; i < 2; i++) {
    rounds.push(workspacesOf(await send({ limit: 4 })))
    await pass(1)
  }
  const all = [busy!, ...quiet].sort()
  t.same(rounds, [all, all])
  t.same(workspacesOf(await send({ limit: 4 })), [busy, busy, busy, busy], 'where others have none')
  const [one] = await outbox.list(quiet[0]!, 1)
  t.equal(one?.attempts, 1)

  const spread = Array.from({ length: 12 }, newWorkspace)
  for (const workspace of spread) await announced(workspace)
  for (let left = 12 + 2; left > 0; left -= 7)
    t.equal((await send({ limit: 7 })).length, 7, 'never more than asked for')
  t.same(await send({ limit: 7 }), [])
}

async function servesWellFirst(t: Test, start: Start): Promise<void> {
  const { outbox, announced, send, pass } = await outboxOf(t, start)
  const [well, ...ailing] = neighbours(4)
  for (const workspace of ailing) for (let i = 0; i < 2; i++) await announced(workspace)
  const failed = await send()
  t.equal(failed.length, 6)
  for (const event of failed) await outbox.end(event, retryIn(0))
  await pass(5)
  await announced(well)
  await announced(well)
  await pass(1)
  const one = async () => (await send({ limit: 1 }))[0]
  const [first, second, third] = [await one(), await one(), await one()]
  t.same([first?.workspace, second?.workspace], [well, well], 'although they came last')
  t.ok(ailing.includes(third!.workspace), 'then the others')
  await outbox.end(third!, DELIVERED)
  await announced(ailing.find((workspace) => workspace !== third?.workspace))
  t.equal((await one())?.workspace, third?.workspace, 'one that is well again is one of the first')
  await outbox.end(first!, retryIn(0))
  t.equal((await send()).length, 6, 'and all have their turn')
}

async function keepsGivenUp(t: Test, start: Start): Promise<void> {
  const { outbox, announced, send, pass, workspace } = await outboxOf(t, start)
  const [kept, forgotten, again] = [await announced(), await announced(), await announced()]
  const events = await send()
  t.equal(events.length, 3)
  await outbox.end({ jobId: kept.id, attempts: 1 }, giveUp(LONG_MS))
  for (const { id } of [forgotten, again]) await outbox.end({ jobId: id, attempts: 1 }, giveUp(SHORT_MS))
  t.equal(await outbox.redeliver(again.id), true)
  await pass(OVER_MS)
  t.match(await send(), [{ jobId: again.id, attempts: 1 }], 'no more than what was asked for again')
  t.equal(await outbox.end({ jobId: again.id, attempts: 1 }, DELIVERED), true)
  const view = { ...events.find(({ jobId }) => jobId === kept.id), reason: 'status 410' }
  t.same(await outbox.list(workspace, 10), [{ ...view, nextAttemptAtMs: null }])
}

async function redelivers(t: Test, start: Start): Promise<void> {
  const { outbox, announced, send, workspace } = await outboxOf(t, start)
  const job = await announced()
  const [event] = await send()
  for (const ending of [retryIn(LONG_MS), giveUp(LONG_MS), DELIVERED, { state: 'dropped' } as const]) {
    t.equal(await outbox.end({ jobId: job.id, attempts: 1 }, ending), true)
    t.equal(await outbox.redeliver(job.id), true)
    t.equal(await outbox.redeliver(job.id), true, 'and when it is asked for again')
    t.match(await outbox.list(workspace, 10), [{ jobId: job.id, attempts: 0, reason: null }])
    t.same(await send(), [event], `the same event, after it was ${ending.state}`)
    t.same(await send(), [])
  }
}

async function redeliversInFlight(t: Test, start: Start): Promise<void> {
  const { outbox, announced, send, pass } = await outboxOf(t, start)
  for (const ending of [retryIn(LONG_MS), giveUp(LONG_MS), DELIVERED]) {
    const job = await announced()
    const [event] = await send()
    t.equal(await outbox.redeliver(job.id), true)
    t.same(await send(), [], 'not twice at a time')
    t.equal(await outbox.end({ jobId: job.id, attempts: 1 }, ending), true)
    t.same(await send({ leaseMs: SHORT_MS }), [event], `from the first attempt on, after ${ending.state}`)

    t.equal(await outbox.redeliver(job.id), true)
    await pass(OVER_MS)
    t.same(await send(), [event], 'also when its sender has died')
    t.equal(await outbox.end({ jobId: job.id, attempts: 1 }, DELIVERED), true)
    t.same(await send(), [], 'and only once')
  }
}

async function redeliversNothing(t: Test, start: Start): Promise<void> {
  const { jobs, outbox, accept, take, end, purge, pass, workspace } = await outboxOf(t, start)
  const queued = await accept({ kind: 'transcription' })
  t.equal(await outbox.redeliver(queued.id), false, 'its job has not ended')
  const taken = await take()
  t.equal(await outbox.redeliver(queued.id), false)
  await jobs.end(taken.id, taken.fence, SUCCESS, { ...KEEP, transcriptionMs: SHORT_MS })
  await accept()
  const silent = await end(await take(), SUCCESS)
  t.equal(await outbox.redeliver(silent!.id), false, 'jobs of the queue announce nothing')
  t.equal(await outbox.redeliver(newJobId('tj', workspace)), false)
  t.equal(await outbox.redeliver(newId('evt')), false)
  t.equal(await outbox.end({ jobId: 'nothing', attempts: 1 }, DELIVERED), false)
  await pass(OVER_MS)
  await purge(taken.id)
  t.equal(await outbox.redeliver(taken.id), false, 'the record of its job is gone')
}

async function lists(t: Test, start: Start): Promise<void> {
  const { outbox, announced, pass } = await outboxOf(t, start)
  const [one, other] = [newWorkspace(), newWorkspace()]
  const order: string[] = []
  for (const workspace of [one, other, one, one, other]) {
    order.unshift((await announced(workspace)).id)
    await pass(2)
  }
  t.same(idsOf(await outbox.list(null, 10)), order)
  t.same(idsOf(await outbox.list(null, 2)), order.slice(0, 2))
  t.same(idsOf(await outbox.list(one, 10)), [order[1], order[2], order[4]])
  t.same(idsOf(await outbox.list(other, 1)), [order[0]])
  t.same(await outbox.list(newWorkspace(), 10), [])
  t.same(await outbox.list(null, 0), [])
}
