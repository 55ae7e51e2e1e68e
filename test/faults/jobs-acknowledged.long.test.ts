import { createHash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { startFleet } from '../support/fleet.ts'
import { jobTenants } from '../support/fleet-jobs.ts'
import type { Larkway } from '../support/larkway.ts'
import { startUpstream } from '../support/upstream/upstream.ts'
import { waitUntil } from '../support/wait-until.ts'
import { filledWav } from '../support/wav.ts'

t.setTimeout(1_800_000)

const KILLS = process.env.LARKWAY_TEST_LONG === '1' ? 500 : 16
/** Jobs that are handed in at the same time; the server is killed at one of the answers. */
const AT_ONCE = 12

/** What was acknowledged: job id → SHA-256 of the audio. */
type Acknowledged = Map<string, string>

let numbered = 0

/** A wav like no other. */
function newAudio(): Buffer {
  const wav = filledWav(6_000)
  wav.writeUInt32LE(++numbered, 100)
  return wav
}

async function submit(url: string, authorization: string, acknowledged: Acknowledged): Promise<void> {
  const wav = newAudio()
  const response = await fetch(`${url}/v1/transcription/jobs`, {
    method: 'POST',
    headers: { authorization, 'content-type': 'audio/wav' },
    body: new Uint8Array(wav),
  })
  const { job_id: id } = (await response.json()) as { job_id: string }
  acknowledged.set(id, createHash('sha256').update(wav).digest('hex'))
}

/** Kills the server at the moment at which the answer to one of some jobs is here. */
async function killAtAnswer(server: Larkway, authorization: string, acknowledged: Acknowledged) {
  const until = acknowledged.size + 1 + Math.floor(Math.random() * AT_ONCE)
  const submissions = Array.from({ length: AT_ONCE }, async () => {
    await submit(server.url, authorization, acknowledged)
    if (acknowledged.size === until) process.kill(server.pid, 'SIGKILL')
  })
  // Those that were under way are broken off.
  await Promise.allSettled(submissions)
  await server.signal('SIGKILL')
}

t.test(`${KILLS} kills at the answer lose no job that was acknowledged`, async (t) => {
  const upstream = await startUpstream(t)
  const fleet = await startFleet(t, { ...jobTenants({ upstreamUrl: upstream.url }), nodes: 0 })
  const authorization = fleet.authorizationOf('ws_0')
  const acknowledged: Acknowledged = new Map()
  for (let kill = 0; kill < KILLS; kill += 1) {
    const server = await fleet.startNode({ env: { LARKWAY_JOBS: '0' } })
    await killAtAnswer(server, authorization, acknowledged)
  }
  t.ok(acknowledged.size >= KILLS, `${acknowledged.size} jobs were acknowledged`)

  await fleet.startNode({ env: { LARKWAY_JOBS_PER_WORKSPACE: '16' } })
  const state = await fleet.openState()
  const worked = await waitUntil(async () => {
    await sleep(100)
    return (await state.jobs.waiting()) === 0
  }, 120_000)
  t.ok(worked, 'all of them are worked on')
  const statuses: Record<string, number> = {}
  await waitUntil(
    async () => {
      const jobs = await Promise.all([...acknowledged.keys()].map((id) => state.jobs.get(id)))
      return jobs.every((job) => job?.status !== 'processing')
    },
    30_000,
    250,
  )
  for (const id of acknowledged.keys()) {
    const status = (await state.jobs.get(id))?.status ?? 'lost'
    statuses[status] = (statuses[status] ?? 0) + 1
  }
  t.same(statuses, { succeeded: acknowledged.size })
  const heard = new Set(upstream.received.map(({ sha256 }) => sha256))
  const missing = [...acknowledged.values()].filter((sha256) => !heard.has(sha256))
  t.same(missing, [], 'and the provider has heard the audio of each')
})
