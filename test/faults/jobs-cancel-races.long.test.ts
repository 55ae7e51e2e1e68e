import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { startFleet } from '../support/fleet.ts'
import { jobTenants, submitJob } from '../support/fleet-jobs.ts'
import { startUpstream } from '../support/upstream/upstream.ts'

t.setTimeout(600_000)

const RACES = process.env.LARKWAY_TEST_LONG === '1' ? 10_000 : 600
const CALLERS = 16
const WORKSPACES = 4
const ENDED = ['succeeded', 'failed', 'cancelled']

interface JobAnswer {
  readonly status: string
  readonly cancel_requested: boolean
}

t.test(`${RACES} jobs are cancelled while they are done`, async (t) => {
  const upstream = await startUpstream(t)
  upstream.behave('whisper-1', { before: () => sleep(Math.random() * 20) })
  // Fewer places than callers, so that some are still queued.
  const env = { LARKWAY_JOBS: '2', LARKWAY_JOBS_PER_WORKSPACE: '1000' }
  const tenants = jobTenants({ upstreamUrl: upstream.url, workspaces: WORKSPACES })
  const fleet = await startFleet(t, { ...tenants, env })
  const { url } = fleet.node()
  const state = await fleet.openState()

  const seen: Record<string, number> = {}
  /** What jobs take here from their acceptance to their end: the first ones are left alone until then. */
  let usualMs = 0
  const race = async (at: number): Promise<void> => {
    const headers = { authorization: fleet.authorizationOf(`ws_${at % WORKSPACES}`) }
    const id = await submitJob(() => url, headers.authorization)
    const path = `${url}/v1/transcription/jobs/${id}`
    const submittedAt = performance.now()
    if (at < CALLERS) {
      await fetch(`${path}?wait=30`, { headers })
      usualMs = Math.max(usualMs, performance.now() - submittedAt)
    } else await sleep(Math.random() * 1.3 * usualMs)
    const told = (await (await fetch(path, { method: 'DELETE', headers })).json()) as JobAnswer
    let last = told
    while (!ENDED.includes(last.status)) {
      last = (await (await fetch(`${path}?wait=10`, { headers })).json()) as JobAnswer
    }
    const outcome = `${told.status} → ${last.status}`
    seen[outcome] = (seen[outcome] ?? 0) + 1
    if (ENDED.includes(told.status) && told.status !== last.status) t.fail(`${id}: ${outcome}`)
    if (told.status === 'processing' && !told.cancel_requested) t.fail(`${id}: it was not asked for`)
    if (told.status === 'queued') t.fail(`${id}: it was left in the queue`)
    const job = await state.jobs.get(id)
    const ends = job?.history.filter(({ status }) => ENDED.includes(status)) ?? []
    if (ends.length !== 1 || ends[0]?.status !== last.status) t.fail(`${id}: ${JSON.stringify(job?.history)}`)
  }
  let next = 0
  await Promise.all(
    Array.from({ length: CALLERS }, async () => {
      while (next < RACES) await race(next++)
    }),
  )
  const outcomes = ['cancelled → cancelled', 'processing → cancelled', 'succeeded → succeeded']
  for (const outcome of outcomes) t.ok((seen[outcome] ?? 0) > 0, `${outcome}: ${seen[outcome]}`)
  t.equal(seen['failed → failed'], undefined)
  t.comment(JSON.stringify(seen))
})
