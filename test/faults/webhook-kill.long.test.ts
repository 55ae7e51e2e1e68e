import { join } from 'node:path'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { openEmbeddedState } from '../../src/gateway/state/embedded/state.ts'
import { startRedis } from '../support/redis-server.ts'
import { openRedisState } from '../support/redis-state.ts'
import { tempFolder } from '../support/scratch.ts'
import { withoutServers } from '../support/servers.ts'
import { waitUntil } from '../support/wait-until.ts'
import type { Delivery, Receiver } from '../support/webhook-receiver.ts'
import { answering, hanging, startReceiver } from '../support/webhook-receiver.ts'
import { startWebhookRig, type WebhookRig } from '../support/webhook-rig.ts'
import { isVerified } from '../support/webhook-signatures.ts'
import { SENDER_POINTS, type SenderOrder, type SenderPoint, startSender } from './fleet-sender.ts'

t.setTimeout(600_000)
// Most of the time they wait for leases. Each has options of its own: tap keeps results in them.
t.jobs = 2

const ROUNDS = process.env.LARKWAY_TEST_LONG === '1' ? 20 : 1
/** Of each round, every other one a callback; each of a workspace of its own: no two targets wait for one another. */
const EVENTS = 20
const LEASE_MS = 4_000
/** How late a busy machine may be. */
const SLACK_MS = 8_000
/** The target has been sent something that nobody has written down as delivered. */
const TWICE: ReadonlySet<SenderPoint> = new Set(['after the request', 'after the answer'])

interface Rig extends WebhookRig {
  readonly place: SenderOrder['place']
  readonly receiver: Receiver
  /** Whether the target keeps those waiting who send to it. */
  readonly target: { isHanging: boolean }
}

async function startRig(t: Test, place: SenderOrder['place']): Promise<Rig> {
  const target = { isHanging: false }
  const receiver = await startReceiver(
    t,
    (line, delivery) => (target.isHanging ? hanging : answering(200))(line, delivery),
    { names: null },
  )
  const log = pino({ level: 'silent' })
  const state =
    'file' in place
      ? await openEmbeddedState({ file: place.file, log })
      : await openRedisState(t, place.redisUrl)
  if ('file' in place) t.teardown(() => state.close())
  return { ...startWebhookRig(t, { internet: {}, state }), place, receiver, target }
}

async function killedAt(t: Test, point: SenderPoint, round: number, rig: Rig): Promise<void> {
  const { receiver, target, place, secretKeys, state } = rig
  const name = `${point} (${round})`
  const secrets = new Map<string, string>()
  const jobs = new Map<string, string>()
  for (let index = 0; index < EVENTS; index += 1) {
    const workspace = `${round}-${SENDER_POINTS.indexOf(point)}-${index}`
    const path = `/${workspace}`
    const url = `http://127.0.0.1:${receiver.port}${path}`
    if (index % 2 === 0) {
      secrets.set(path, await rig.setWebhook(workspace, url))
      jobs.set(path, await rig.announce(workspace))
    } else jobs.set(path, await rig.announceTo({ url, headers: { 'x-receiver': path } }, workspace))
  }
  const delivered = () => receiver.received.filter(({ path }) => jobs.has(path))
  const order = {
    place,
    secretKey: (secretKeys[0] ?? Buffer.alloc(0)).toString('base64'),
    leaseMs: LEASE_MS,
    events: EVENTS,
  }

  target.isHanging = point === 'after the request'
  const startedMs = performance.now()
  const killed = startSender(t, { ...order, holdAt: point })
  const isThere = () => (target.isHanging ? delivered().length : killed.held) >= EVENTS
  t.ok(await waitUntil(isThere, 30_000), `${name}: all events are there`)
  await killed.kill()
  const killedMs = performance.now()
  const before = delivered().length
  t.equal(before > 0, TWICE.has(point), `${name}: ${before} deliveries of a sender that is killed`)

  target.isHanging = false
  const next = startSender(t, { ...order, holdAt: null })
  const after = () => delivered().slice(before)
  const isDelivered = () => new Set(after().map(({ path }) => path)).size === EVENTS
  const latestMs = LEASE_MS + SLACK_MS
  t.ok(await waitUntil(isDelivered, latestMs), `${name}: all are delivered within a lease of the kill`)
  const settled = async () => (await state.outbox.list(null, 1_000)).length === 0
  t.ok(await waitUntil(settled, SLACK_MS), `${name}: which is written down`)
  await next.kill()

  const soonestMs = Math.min(...after().map(({ atMs }) => atMs))
  if (point !== 'before the claim') {
    t.ok(soonestMs - startedMs >= LEASE_MS, `${name}: none is taken from a sender that may live`)
  }
  t.comment(`${name}: delivered ${Math.round(soonestMs - killedMs)} ms after the kill`)
  assertAlike(t, name, { deliveries: delivered(), jobs, secrets })
}

/** Each delivery is the one event of its job, and of those of one event no two differ. */
function assertAlike(
  t: Test,
  name: string,
  {
    deliveries,
    jobs,
    secrets,
  }: {
    readonly deliveries: readonly Delivery[]
    readonly jobs: ReadonlyMap<string, string>
    readonly secrets: ReadonlyMap<string, string>
  },
): void {
  const seen = new Map<string, Set<string>>()
  for (const { path, headers, body } of deliveries) {
    const kinds = seen.get(path) ?? new Set()
    seen.set(path, kinds.add(`${headers['x-lk-webhook-id']} ${body}`))
  }
  t.ok(
    [...seen.values()].every(({ size }) => size === 1),
    `${name}: all deliveries of an event are alike`,
  )
  const jobIn = (body: string) => {
    const { job_id: id, transcript_id: called = id } = JSON.parse(body) as Record<string, string>
    return called
  }
  const others = deliveries.filter(({ path, body }) => jobIn(body) !== jobs.get(path))
  t.equal(others.length, 0, `${name}: each goes to its own target`)
  const isKnown = (delivery: Delivery) => {
    const secret = secrets.get(delivery.path)
    if (secret === undefined) return delivery.headers['x-receiver'] === delivery.path
    return isVerified(secret, delivery)
  }
  const unknown = deliveries.filter((delivery) => !isKnown(delivery))
  t.equal(unknown.length, 0, `${name}: all are signed, or have the header of their callback`)
}

async function killedEverywhere(t: Test, rig: Rig): Promise<void> {
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const point of SENDER_POINTS) await killedAt(t, point, round, rig)
  }
}

t.test('a killed sender loses no event: one file', { buffered: true }, async (t) => {
  const file = join(await tempFolder(t), 'state.sqlite')
  await killedEverywhere(t, await startRig(t, { file }))
})

t.test('a killed sender loses no event: Redis', { buffered: true, skip: withoutServers }, async (t) => {
  const { url: redisUrl } = await startRedis(t)
  await killedEverywhere(t, await startRig(t, { redisUrl }))
})
