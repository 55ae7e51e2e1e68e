import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { waitUntil } from '../../support/wait-until.ts'
import { answering, type Behaviour, hanging, startReceiver } from '../../support/webhook-receiver.ts'
import { startWebhookRig } from '../../support/webhook-rig.ts'

t.setTimeout(120_000)

const LIVE = 100
const ROUNDS = 5
const ROUND_MS = 800
/** What a delivery to the dead target takes. */
const DEAD_MS = 10_000

const behave: Behaviour = (line, delivery) =>
  (delivery.path === '/dead' ? hanging : answering(200))(line, delivery)

/** Many live targets, and a dead one with so many events, served in so many places. */
async function startTargets(t: Test, deadEvents: number, places: number) {
  // Without TLS, whose handshakes would keep this process busier than all that is measured.
  const receiver = await startReceiver(t, behave, { names: null })
  const origin = `http://127.0.0.1:${receiver.port}`
  const rig = startWebhookRig(t, {
    internet: { '127.0.0.1': receiver },
    places,
    post: { insecure: true, timing: { totalMs: DEAD_MS, bodyMs: 100 } },
    timing: { schedule: { pausesMs: [100, 100, 100, 100, 100, 100, 100], retryAfterMaxMs: 0 } },
  })
  const live = Array.from({ length: LIVE }, (_, index) => `live-${index}`)
  await rig.setWebhook('dead', `${origin}/dead`)
  await Promise.all(live.map((workspace) => rig.setWebhook(workspace, `${origin}/live`)))
  await Promise.all(Array.from({ length: deadEvents }, () => rig.announce('dead')))
  rig.start()

  const endedAtMs = new Map<string, number>()
  /** From the end of a job to the first arrival of its event, milliseconds, sorted. */
  const delaysMs = () => {
    const arrivedAtMs = new Map<string, number>()
    for (const { path, body, atMs } of receiver.received) {
      const job: string = JSON.parse(body).job_id
      if (path === '/live' && !arrivedAtMs.has(job)) arrivedAtMs.set(job, atMs)
    }
    return [...arrivedAtMs].map(([job, atMs]) => atMs - (endedAtMs.get(job) ?? 0)).sort((a, b) => a - b)
  }
  return {
    delaysMs,
    /** A job ends in each of the live workspaces. */
    async endJobs() {
      await Promise.all(
        live.map(async (workspace) => {
          const job = await rig.announce(workspace)
          endedAtMs.set(job, performance.now())
          rig.signals.ended()
        }),
      )
    },
    dead: () => receiver.received.filter(({ path }) => path === '/dead').length,
  }
}

t.test('a target that is dead delays nobody else, however many events it has', async (t) => {
  // In fewer places than its events could fill, too.
  for (const places of [40, 256]) {
    // Side by side, so that whatever else the machine does is the same for both.
    const beside = await startTargets(t, LIVE * ROUNDS, places)
    const without = await startTargets(t, 0, places)
    t.ok(await waitUntil(() => beside.dead() === 16), 'the dead one has its share of the places')
    for (let round = 0; round < ROUNDS; round += 1) {
      await Promise.all([beside.endJobs(), without.endJobs()])
      await sleep(ROUND_MS)
    }
    const all = LIVE * ROUNDS
    t.ok(await waitUntil(() => beside.delaysMs().length === all && without.delaysMs().length === all, 30_000))
    const [medians, slowest] = [0.5, 0.99].map((part) =>
      [beside, without].map(({ delaysMs }) => Math.round(delaysMs()[Math.floor(all * part)] ?? Number.NaN)),
    ) as [[number, number], [number, number]]
    const said = JSON.stringify({ places, medians, slowest, dead: beside.dead() })
    t.comment(said)
    t.ok(medians[0] < medians[1] * 2 + 100, `the median: ${said}`)
    t.ok(slowest[0] < slowest[1] * 2 + 500, `the slowest: ${said}`)
    t.ok(slowest[0] < DEAD_MS, `nobody waited for the dead one: ${said}`)
  }
})
