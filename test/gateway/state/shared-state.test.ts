import { join } from 'node:path'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { Cancellation } from '../../../src/contracts/cancellation.ts'
import type { State } from '../../../src/contracts/state.ts'
import { type Clock, systemClock } from '../../../src/contracts/time.ts'
import { createSharedState } from '../../../src/gateway/state/shared/client.ts'
import type {
  ClientChannel,
  ClientMessage,
  ServerChannel,
  ServerMessage,
} from '../../../src/gateway/state/shared/messages.ts'
import { StateServer } from '../../../src/gateway/state/shared/server.ts'
import { changeOf, publish, routeOf } from '../../support/catalog-under-test.ts'
import { claimingOf, specOf } from '../../support/jobs-under-test.ts'
import { tempFolder } from '../../support/scratch.ts'
import { emptyStateIn } from '../../support/state-file.ts'
import type { StateUnderTest } from '../../support/state-under-test.ts'
import { beginningOf, claimOf, newDigest, newWorkspace, reserve } from '../../support/state-under-test.ts'
import { storedKey } from '../../support/stored-key.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'
import { waitUntil } from '../../support/wait-until.ts'
import { leaseOf, newName, permitsContract } from './permits.contract.ts'
import { rateLimiterContract, taking } from './rate-limiter.contract.ts'
import { sampleContracts } from './redis.contracts.ts'
import { unitLimiterContract } from './unit-limiter.contract.ts'

const log = pino({ level: 'silent' })
const PROCESSES = 2
const KEEP = { transcriptionMs: 60_000, queueMs: 60_000, deadMs: 60_000 }
const NEVER = new Cancellation()

/** A channel as Node gives it a child: what is sent arrives later, as a copy, and in order. */
function channelPair() {
  const closers: (() => void)[] = []
  let isOpen = true
  let toServer: (message: ClientMessage) => void = () => {}
  let toClient: (message: ServerMessage) => void = () => {}
  const later = <Message>(deliver: () => (message: Message) => void) => {
    return (message: Message) => {
      const copy = structuredClone(message)
      setImmediate(() => {
        if (isOpen) deliver()(copy)
      })
    }
  }
  const client: ClientChannel = {
    send: later<ClientMessage>(() => toServer),
    listen(onMessage, onClosed) {
      toClient = onMessage
      closers.push(onClosed)
    },
  }
  const server: ServerChannel = {
    send: later<ServerMessage>(() => toClient),
    listen(onMessage, onClosed) {
      toServer = onMessage
      closers.push(onClosed)
    },
  }
  /** As when either process dies. */
  const cut = () => {
    isOpen = false
    for (const close of closers) close()
  }
  return { client, server, cut }
}

interface Shared {
  readonly states: readonly State[]
  /** Ends each process of a state without a word. */
  readonly cuts: readonly (() => void)[]
  readonly server: StateServer
}

async function startShared(t: Test, clock: Clock = systemClock): Promise<Shared> {
  const file = await emptyStateIn(await tempFolder(t))
  const server = await StateServer.open({ file, log, processes: PROCESSES, clock })
  const pairs = Array.from({ length: PROCESSES }, channelPair)
  for (const pair of pairs) server.serve(pair.server)
  const states = pairs.map(({ client }) => createSharedState(client, clock))
  t.teardown(async () => {
    await Promise.all(states.map((state) => state.close()))
    await server.close()
  })
  return { states, cuts: pairs.map(({ cut }) => cut), server }
}

t.test('a sample of the contracts of the state', async (t) => {
  const start = async (): Promise<StateUnderTest> => {
    const clock = new VirtualClock(Date.now())
    const { states } = await startShared(t, clock)
    return { state: states[0]!, pass: (ms) => clock.advance(ms), setClock: null }
  }
  await sampleContracts(t, start)
})

t.test('rate limits', async (t) =>
  rateLimiterContract(t, async (t) => {
    const clock = new VirtualClock()
    const { states } = await startShared(t, clock)
    const { rateLimiter: limiter } = states[0]!
    return { limiter, pass: (ms) => clock.advance(ms), nowMs: clock.now }
  }),
)

t.test('limits of units', async (t) =>
  unitLimiterContract(t, async (t) => (await startShared(t)).states[0]!.unitLimiter),
)

t.test('permits', async (t) =>
  permitsContract(t, async (t) => (await startShared(t)).states.map(({ permits }) => permits)),
)

t.test('audio in the record of a job comes to a worker of another process', async (t) => {
  const { states } = await startShared(t)
  const input = Buffer.from('RIFF and all that')
  const spec = specOf(newWorkspace(), { kind: 'transcription' })
  await states[0]!.jobs.submit({ spec, slot: null, input })
  const [taken] = await states[1]!.jobInputs!.take(1, 0)
  t.same([taken?.job.id, Buffer.from(taken!.input)], [spec.id, input])
  const [claimed] = await states[1]!.jobs.claim(claimingOf())
  t.same([claimed?.job.id, Buffer.from(claimed!.input!)], [spec.id, input])
})

t.test('the processes share one bucket, also where they decide by tokens in hand', async (t) => {
  const { states } = await startShared(t)
  const limit = { requestsPerMinute: 1, burst: 400 }
  let allowed = 0
  for (let round = 0; round < 300; round += 1)
    for (const { rateLimiter } of states)
      if ((await rateLimiter.take(taking('key_one', limit))).allowed) allowed += 1
  const inHand = states.map(({ rateLimiter }) => rateLimiter.figures().decisions.leases ?? 0)
  t.equal(allowed, 400)
  t.ok(
    inHand.every((count) => count > 50),
    `decided without a trip: ${inHand}`,
  )
  for (const { rateLimiter } of states)
    t.match(await rateLimiter.take(taking('key_one', limit)), { allowed: false, local: false })
})

t.test('tokens that a process has in hand go back when it closes the state', async (t) => {
  const { states } = await startShared(t)
  const [one, other] = states as [State, State]
  const limit = { requestsPerMinute: 1, burst: 400 }
  for (let count = 0; count < 5; count += 1) await one.rateLimiter.take(taking('key_one', limit))
  const before = await other.rateLimiter.take(taking('key_one', limit))
  t.ok(before.remaining < 394, `${before.remaining}: some are in hand`)
  await one.close()
  t.match(await other.rateLimiter.take(taking('key_one', limit)), { remaining: 393 })
})

t.test('an idempotency key that is in use is seen by all', async (t) => {
  const { states } = await startShared(t)
  const [one, other] = states as [State, State]
  const workspace = newWorkspace()
  const slotId = newDigest()
  const take = { ...taking('key_one', { requestsPerMinute: 60, burst: 5 }, slotId), workspace }
  t.match(await other.rateLimiter.take(take), { allowed: true, slotTaken: false })
  const begun = await one.ledger.begin(beginningOf(workspace, { slot: claimOf(slotId) }))
  t.equal(begun.state, 'begun')
  t.match(await other.rateLimiter.take(take), { allowed: true, slotTaken: true })
})

t.test('credits are spent once, whoever spends them', async (t) => {
  const { states } = await startShared(t)
  const workspace = newWorkspace()
  await states[0]!.accounts.addCredits(workspace, { id: 'initial', micros: 700 })
  const begun = await Promise.all(
    Array.from({ length: 40 }, (_, i) =>
      states[i % PROCESSES]!.ledger.begin(beginningOf(workspace, { reservation: reserve(70) })),
    ),
  )
  t.equal(begun.filter(({ state }) => state === 'begun').length, 10)
})

t.test('what a dead process held in permits is free at once, and whoever waits is served', async (t) => {
  const { states, cuts } = await startShared(t)
  const [dying, living] = states as [State, State]
  const limit = { name: newName(), most: 1 }
  leaseOf(await dying.permits.take([limit]))
  const waits = living.permits.wait(limit, { workspace: 'acme', waitMs: 60_000, signal: NEVER })
  const death = new Cancellation()
  const neverServed = dying.permits.wait(limit, { workspace: 'acme', waitMs: 60_000, signal: death })
  await waitUntil(() => living.permits.waiting(limit.name) + dying.permits.waiting(limit.name) === 2)
  await living.permits.take([{ name: newName(), most: 1 }])
  cuts[0]!()
  const lease = await waits
  t.ok(lease)
  lease?.release()
  const again = await living.permits.take([limit])
  t.ok('lease' in again, 'the other one that waited has left with its process')
  death.abort(new Error('dead'))
  t.equal(await neverServed, null)
})

t.test('who leaves in the turn in which it came holds nothing', async (t) => {
  const { states } = await startShared(t)
  const [{ permits }, other] = states as [State, State]
  const limit = { name: newName(), most: 1 }
  const call = new Cancellation()
  const left = permits.wait(limit, { workspace: 'acme', waitMs: 60_000, signal: call })
  call.abort(new Error('left'))
  t.equal(await left, null)
  await permits.take([{ name: newName(), most: 1 }])
  leaseOf(await other.permits.take([limit]))
})

t.test('a process whose state has gone is refused at once, and counts alone', async (t) => {
  const { states, cuts } = await startShared(t)
  const [left] = states as [State]
  const answer = left.keys.list()
  cuts[0]!()
  await t.rejects(answer, { code: 'DEPENDENCY_UNAVAILABLE' })
  await t.rejects(left.keys.list(), { code: 'DEPENDENCY_UNAVAILABLE' })
  t.equal(await left.healthy(), false)
  const limit = { requestsPerMinute: 1, burst: 1 }
  t.match(await left.rateLimiter.take(taking('key_one', limit)), { allowed: true, local: true })
  t.match(await left.rateLimiter.take(taking('key_one', limit)), { allowed: false, local: true })
  t.match(await left.unitLimiter.take([{ partition: 'acme', id: 'one', perMinute: 5 }], 5), {
    retryAfterMs: 0,
  })
  const permit = { name: newName(), most: 1 }
  leaseOf(await left.permits.take([permit]))
  t.same(await left.permits.take([permit]), { full: permit })
})

t.test(
  'orders to end sessions, marks of usage, ended jobs and changes of settings reach the other processes',
  async (t) => {
    const { states } = await startShared(t)
    const [one, other] = states as [State, State]
    await one.console.sessionEnds.order('live_1')
    t.same(await other.console.sessionEnds.pending(), ['live_1'])
    await other.console.sessionEnds.withdraw('live_1')
    t.same(await one.console.sessionEnds.pending(), [])
    const noted = (state: State) => {
      const changed: string[] = []
      state.listen({
        queued() {},
        changed: (id) => changed.push(id),
        settings: () => changed.push('settings'),
      })
      return changed
    }
    const [own, changed] = [noted(one), noted(other)]
    await one.jobs.cancel('tj_none', { workspace: 'acme', app: 'app' }, KEEP)
    t.ok(await waitUntil(() => changed.includes('tj_none')))
    await one.jobs.erase(specOf('acme', { id: 'tj_gone' }), KEEP)
    t.ok(await waitUntil(() => changed.includes('tj_gone')))

    const key = storedKey()
    await one.keys.create(key)
    await one.keys.replace({ ...key, name: 'other' }, await one.keys.version())
    await one.keys.revoke(key.id)
    await one.catalog.change(changeOf([publish(routeOf('acme'), { n: 1 })]))
    t.ok(await waitUntil(() => changed.length === 6), `keys and the catalog: ${changed}`)
    t.same(own, [], 'who changed it knows')
  },
)

t.test('an error of the state is the same error in the process that asked', async (t) => {
  const folder = await tempFolder(t)
  await t.rejects(StateServer.open({ file: join(folder, 'none', '\0'), log, processes: 1 }))
  const { states } = await startShared(t)
  const unknown = states[0]!.alerts.update as unknown as () => Promise<void>
  await t.rejects(unknown(), { code: 'INTERNAL' })
  t.equal(await states[0]!.healthy(), true)
})
