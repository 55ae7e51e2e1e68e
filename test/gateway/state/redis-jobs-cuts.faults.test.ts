import t, { type Test } from 'tap'
import type { Job, JobKind } from '../../../src/contracts/jobs.ts'
import type { State } from '../../../src/contracts/state.ts'
import {
  claimingOf,
  FAILURE,
  KEEP,
  RETURN,
  SUCCESS,
  slotOf,
  specOf,
  storyOf,
} from '../../support/jobs-under-test.ts'
import type { Verdict } from '../../support/redis-proxy.ts'
import { withoutServers } from '../../support/servers.ts'
import { LONG_MS } from '../../support/state-under-test.ts'
import { waitUntil } from '../../support/wait-until.ts'
import { CUTS, type EmptiedState, insist, judge, startCutCluster, startCutServer } from './redis-cuts.ts'

/** What an operation is done to; each time another, in an empty state. */
type Place = ReturnType<typeof newPlace>

interface Operation {
  /** What the proxy calls its command. */
  readonly command: string
  prepare?(state: State, place: Place): Promise<unknown>
  run(state: State, place: Place): Promise<unknown>
  /** What it answers when it has run before, where that is something else. */
  readonly again?: unknown
}

const newPlace = (kind: JobKind) => ({ spec: specOf('acme', { kind }), slot: slotOf() })
const OWNER = { workspace: 'acme', app: 'web' }
/** As many as there are partitions, so that all are asked at a time. */
const ALL = claimingOf({ limit: 16 })
const SENDING = { limit: 16, leaseMs: LONG_MS, perWorkspace: 4, perAiling: 1 }
const OVER = { transcriptionMs: 1, queueMs: 1, deadMs: 1 }

/** What a job shows that is the same in every place. */
function factsOf(job: Job | null): unknown {
  if (job === null) return null
  const { id: _, eventId, createdAtMs, startedAtMs, endedAtMs, expiresAtMs, history, ...rest } = job
  return {
    ...rest,
    story: storyOf(job),
    moments: [startedAtMs, endedAtMs, expiresAtMs].map((ms) => ms !== null),
  }
}

const submit = async ({ jobs }: State, { spec, slot }: Place) => {
  const answer = await jobs.submit({ spec, slot })
  return answer.state === 'accepted' ? { replayed: answer.replayed, job: factsOf(answer.job) } : answer
}
const claim = async ({ jobs }: State) => (await jobs.claim(ALL)).map(({ job }) => factsOf(job))
const taken = async (state: State, place: Place) => {
  await submit(state, place)
  await claim(state)
}
const ending =
  (by: Parameters<State['jobs']['end']>[2], keep = KEEP) =>
  async ({ jobs }: State, { spec }: Place) =>
    factsOf(await jobs.end(spec.id, 1, by, keep))
const ended =
  (by: Parameters<State['jobs']['end']>[2], keep = KEEP) =>
  async (state: State, place: Place) => {
    await taken(state, place)
    await ending(by, keep)(state, place)
  }
const over = async (state: State, place: Place) => {
  await ended(SUCCESS, OVER)(state, place)
  await waitUntil(async () => (await state.jobs.takeExpired(16)).length === 1)
}
const cancel = async ({ jobs }: State, { spec }: Place) => factsOf(await jobs.cancel(spec.id, OWNER, KEEP))
const send = async ({ outbox }: State) => (await outbox.claim(SENDING)).map(({ attempts }) => attempts)
const sent = async (state: State, place: Place) => {
  await ended(SUCCESS)(state, place)
  await send(state)
}
const endEvent =
  (by: Parameters<State['outbox']['end']>[1]) =>
  ({ outbox }: State, { spec }: Place) =>
    outbox.end({ jobId: spec.id, attempts: 1 }, by)

const SUBMIT: Operation = { command: 'submit_job', run: submit }
const CLAIM: Operation = { command: 'claim_jobs', prepare: submit, run: claim }
const END: Operation = { command: 'end_job', prepare: taken, run: ending(SUCCESS) }
const SEND: Operation = { command: 'claim_events', prepare: ended(SUCCESS), run: send, again: [] }

/** Every operation on jobs and events. */
const OPERATIONS: Readonly<Record<string, Operation>> = {
  submit: SUBMIT,
  claim: CLAIM,
  renew: {
    command: 'renew_job',
    prepare: taken,
    run: ({ jobs }, { spec }) =>
      jobs.renew(spec.id, 1, LONG_MS, { audio: null, upstream: { entry: 'one', state: [] } }),
  },
  'end succeeded': END,
  'end failed': { command: 'end_job', prepare: taken, run: ending(FAILURE) },
  'give back': { command: 'end_job', prepare: taken, run: ending(RETURN) },
  'put off': {
    command: 'end_job',
    prepare: taken,
    run: ending({ state: 'queued', delayMs: LONG_MS, counts: 'retry' }),
  },
  'cancel what waits': { command: 'cancel_job', prepare: submit, run: cancel },
  'cancel what runs': { command: 'cancel_job', prepare: taken, run: cancel },
  retry: {
    command: 'retry_job',
    prepare: ended(FAILURE),
    run: ({ jobs }, { spec }) => jobs.retry(spec.id),
    again: false,
  },
  'take what is over': {
    command: 'take_expired_jobs',
    async prepare(state, place) {
      await ended(SUCCESS, OVER)(state, place)
      await waitUntil(
        async () => Number((await state.jobs.get(place.spec.id))?.expiresAtMs) < Date.now() - 50,
      )
    },
    run: async ({ jobs }) => (await jobs.takeExpired(16)).map(factsOf),
    again: [],
  },
  forget: { command: 'forget_job', prepare: over, run: ({ jobs }, { spec }) => jobs.forget(spec.id) },
  known: {
    command: 'known_jobs',
    prepare: submit,
    run: async ({ jobs }, { spec }) => (await jobs.known([spec.id])).size,
  },
  list: {
    command: 'list_jobs',
    prepare: submit,
    run: async ({ jobs }) =>
      (await jobs.list({ workspace: 'acme', kind: null, status: null, limit: 9 })).map(factsOf),
  },
  get: {
    command: 'show_job',
    prepare: submit,
    run: async ({ jobs }, { spec }) => factsOf(await jobs.get(spec.id)),
  },
  waiting: { command: 'hget', prepare: submit, run: ({ jobs }) => jobs.waiting() },
  'send events': SEND,
  'try later': {
    command: 'end_event',
    prepare: sent,
    run: endEvent({ state: 'retry', delayMs: LONG_MS, reason: 'status 500' }),
  },
  'give an event up': {
    command: 'end_event',
    prepare: sent,
    run: endEvent({ state: 'given_up', reason: 'status 410', keepMs: LONG_MS }),
  },
  deliver: { command: 'end_event', prepare: sent, run: endEvent({ state: 'delivered' }), again: false },
  redeliver: {
    command: 'redeliver_event',
    async prepare(state, place) {
      await sent(state, place)
      await endEvent({ state: 'delivered' })(state, place)
    },
    run: ({ outbox }, { spec }) => outbox.redeliver(spec.id),
  },
  'list events': {
    command: 'list_events',
    prepare: ended(SUCCESS),
    run: async ({ outbox }) => (await outbox.list('acme', 9)).map(({ attempts }) => attempts),
  },
}

/** All that a place shows, its names and moments left out. */
async function viewOf({ jobs, outbox }: State, { spec, slot }: Place): Promise<unknown> {
  const again = await jobs.submit({ spec: { ...spec, id: specOf('acme').id }, slot })
  return {
    job: factsOf(await jobs.get(spec.id)),
    known: (await jobs.known([spec.id])).size,
    waiting: await jobs.waiting(),
    slot: again.state === 'accepted' && { replayed: again.replayed, job: factsOf(again.job) },
    events: (await outbox.list(null, 9)).map(({ status, attempts, reason, nextAttemptAtMs }) => ({
      ...{ status, attempts, reason, isGivenUp: nextAttemptAtMs === null },
    })),
  }
}

async function breaks(t: Test, rig: EmptiedState, operation: Operation, cut: Verdict): Promise<void> {
  const { state, direct } = rig
  const { command, run } = operation
  // Jobs of the queue can be retried, the others announce their ends.
  const kind = command === 'retry_job' ? 'queue' : 'transcription'
  const [clean, place] = [newPlace(kind), newPlace(kind)]
  await rig.empty()
  await operation.prepare?.(direct, clean)
  const once = await run(direct, clean)
  const cleanView = await viewOf(direct, clean)

  await rig.empty()
  await operation.prepare?.(direct, place)
  // The connections are back, all of them.
  await insist(() => state.jobs.waiting())
  judge(rig, command, cut)
  await t.rejects(run(state, place), { code: 'DEPENDENCY_UNAVAILABLE', cause: Error }, 'the caller is told')
  judge(rig, command, 'pass')
  const answer = await insist(() => run(state, place))
  const has = cut === 'cut after' || cut === 'cut inside the answer'
  t.same(answer, has && operation.again !== undefined ? operation.again : once, 'repeated')
  t.same(await viewOf(direct, place), cleanView, 'as if it had run once')
}

async function survives(
  t: Test,
  rig: EmptiedState,
  operations: Readonly<Record<string, Operation>>,
): Promise<void> {
  for (const [name, operation] of Object.entries(operations))
    for (const cut of CUTS) await t.test(`${name}: ${cut}`, (t) => breaks(t, rig, operation, cut))
}

t.test('one server: every operation, cut at every step', { skip: withoutServers }, async (t) => {
  await survives(t, await startCutServer(t), OPERATIONS)
})

t.test('a cluster: writes, cut at every step', { skip: withoutServers }, async (t) => {
  await survives(t, await startCutCluster(t), { submit: SUBMIT, claim: CLAIM, end: END })
})
