import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { GatewayError } from '../../../src/contracts/errors.ts'
import { createJobSignals } from '../../../src/gateway/jobs/watch.ts'
import { hearingRig, SOUND } from '../../support/job-rig.ts'
import { waitUntil } from '../../support/wait-until.ts'

const NEVER_POLLS = { pollMs: [600_000, 600_000] } as const
const away = () => Promise.reject(new GatewayError('DEPENDENCY_UNAVAILABLE'))

/** A wait that counts who waits, and lets all go at the end of the test. */
function counted() {
  const { promise, resolve } = Promise.withResolvers<void>()
  const counts = { now: 0, most: 0 }
  return {
    counts,
    letGo: resolve,
    async before() {
      counts.now += 1
      counts.most = Math.max(counts.most, counts.now)
      await promise
      counts.now -= 1
    },
  }
}

t.test('jobs of this process are taken up at once, and the next ones as places come free', async (t) => {
  const { rig, upstream } = await hearingRig(t)
  const { before, counts, letGo } = counted()
  upstream.behave('ear', { before })
  const runner = rig.run({ places: 2, perWorkspace: 9, timing: NEVER_POLLS })
  await sleep(100)
  const ids = []
  for (let count = 0; count < 7; count += 1) ids.push(await rig.hear(SOUND))
  t.ok(await waitUntil(() => counts.now === 2))
  await sleep(200)
  letGo()
  for (const id of ids) t.equal((await rig.ended(id)).status, 'succeeded')
  t.ok(await waitUntil(() => runner.running === 0))
})

t.test('and those of other processes with the next look', async (t) => {
  const { rig } = await hearingRig(t)
  rig.run({ signals: createJobSignals() })
  await sleep(200)
  t.equal((await rig.ended(await rig.hear(SOUND))).status, 'succeeded')
})

t.test('no more run than there are places', async (t) => {
  const { rig, upstream } = await hearingRig(t)
  const { before, counts, letGo } = counted()
  upstream.behave('ear', { before })
  const runner = rig.run({ places: 3, perWorkspace: 9 })
  const ids = await Promise.all(Array.from({ length: 8 }, () => rig.hear(SOUND)))
  t.ok(await waitUntil(() => counts.now === 3))
  await sleep(300)
  t.equal(runner.running, 3)
  letGo()
  await Promise.all(ids.map((id) => rig.ended(id)))
  t.equal(counts.most, 3)
})

t.test('no more of a workspace run than it may have, and the next one begins when one is done', async (t) => {
  const { rig, upstream } = await hearingRig(t)
  const { before, counts, letGo } = counted()
  upstream.behave('ear', { before })
  rig.run({ places: 8, perWorkspace: 2, timing: NEVER_POLLS })
  const ids = await Promise.all(Array.from({ length: 6 }, () => rig.hear(SOUND)))
  t.ok(await waitUntil(() => counts.now === 2))
  await sleep(200)
  t.equal(counts.now, 2)
  letGo()
  await Promise.all(ids.map((id) => rig.ended(id)))
  t.equal(counts.most, 2)
})

t.test('whoever waits for a job hears when it is taken up and when it has ended', async (t) => {
  const { rig } = await hearingRig(t)
  const heard: (string | undefined)[] = []
  const id = await rig.hear(SOUND)
  rig.signals.onChanged(id, () => {
    void rig.job(id).then((job) => heard.push(job?.status))
  })
  rig.run()
  await rig.ended(id)
  t.ok(await waitUntil(() => heard.length === 2))
  t.match(heard[1], 'succeeded')
})

t.test('a state that is away is said once, and once that it is back; the jobs are done then', async (t) => {
  const { rig } = await hearingRig(t)
  let asked = 0
  let isAway = true
  const claim: typeof rig.jobs.claim = (claiming) => {
    asked += 1
    return isAway ? away() : rig.jobs.claim(claiming)
  }
  rig.run({ jobs: { claim } })
  const id = await rig.hear(SOUND)
  t.ok(await waitUntil(() => asked >= 4))
  const [before, fromMs] = [asked, performance.now()]
  for (let count = 0; count < 30; count += 1) {
    rig.signals.queued()
    await sleep(10)
  }
  const hurriedMs = performance.now() - fromMs
  t.ok(asked - before <= 1 + hurriedMs / 30, `${asked - before} times in ${hurriedMs} ms: nobody hurries it`)
  isAway = false
  t.equal((await rig.ended(id)).status, 'succeeded')
  t.ok(await waitUntil(() => rig.ends().length === 1))
  t.same(
    rig.lines.map(({ msg }) => msg),
    ['jobs cannot be claimed: the state is unreachable', 'jobs are claimed again', 'job'],
  )
})
