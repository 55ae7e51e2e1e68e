import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { type FleetOptions, startFleet } from '../support/fleet.ts'
import { ask, countsOf, keyedUpload, nameOf } from '../support/keyed-call.ts'
import { isAlive, processesOf } from '../support/larkway.ts'
import { processesProgram } from '../support/program.ts'
import { startUpstream } from '../support/upstream/upstream.ts'
import { waitUntil } from '../support/wait-until.ts'

const PROCESSES = 3
const BURST = 60
const PERMITS = 2
const CALLERS = 6
const KILLS = 12
/** Of the kills one in so many meets the process that has the state, and with it all of them. */
const ALL_OF_THEM = 4
const JOBS_EACH = 4

const program = await processesProgram(PROCESSES)

/** A node of several processes on one folder, in front of a provider that counts what it was asked. */
async function startShared(t: Test, options: Partial<FleetOptions> = {}) {
  const upstream = await startUpstream(t, { script: { waitMs: 30 } })
  const hears = { kind: 'openai-compatible', access: 'byok', workspace: 'acme', base_url: upstream.url }
  const fleet = await startFleet(t, {
    program: () => program,
    providers: { hears },
    workspaces: {
      acme: {
        entries: [{ provider: 'hears', model: 'm', capabilities: ['audio_input'] }],
        key: {
          scopes: ['inference', 'jobs'],
          rate_limit: { requests_per_minute: 1_000_000, burst: 100_000 },
        },
      },
    },
    config: { deadline_seconds: 3 },
    timing: { calls: { slotGraceMs: 1_000 }, jobs: { leaseMs: 3_000, renewMs: 500 } },
    ...options,
  })
  const node = () => fleet.node()
  await waitUntil(() => processesOf(node()).length === PROCESSES, 30_000)
  return { fleet, upstream, node, authorization: fleet.authorizationOf('acme') }
}

t.test(
  'processes on one folder keep one rate limit and one count of permits',
  { timeout: 60_000 },
  async (t) => {
    const upstream = await startUpstream(t)
    // None gives up its place in the queue, however slow the machine is.
    const waits = { concurrency: PERMITS, queue_ms: 30_000 }
    const hears = { kind: 'openai-compatible', access: 'byok', workspace: 'acme', ...waits }
    const { node, authorization } = await startShared(t, {
      providers: { hears: { ...hears, base_url: upstream.url } },
      workspaces: {
        acme: {
          entries: [{ provider: 'hears', model: 'm', capabilities: ['audio_input'] }],
          key: { rate_limit: { requests_per_minute: 1, burst: BURST } },
        },
      },
      config: {},
    })
    upstream.holdAt('whole')
    const names: string[] = []
    const calls = Array.from({ length: 3 * BURST }, async (_, i) => {
      names.push(nameOf(await ask(node().port, keyedUpload(`limit-${i}`, authorization))))
    })
    const isRefused = (name: string) => name !== '200'
    t.ok(await waitUntil(() => names.filter(isRefused).length === 2 * BURST, 20_000), 'all are decided')
    t.ok(await waitUntil(() => upstream.held >= PERMITS))
    let most = 0
    while (names.length < calls.length) {
      await waitUntil(() => upstream.held > 0 || names.length === calls.length)
      most = Math.max(most, upstream.held)
      upstream.letGo()
    }
    t.equal(most, PERMITS, 'the account has so many calls at a time, whichever process makes them')
    await Promise.all(calls)
    t.same(countsOf(names), { 200: BURST, '429 RATE_LIMITED': 2 * BURST })
  },
)

t.test(
  'processes are killed one by one, and the one with the state: no key is executed twice, no job is lost',
  { timeout: 240_000 },
  async (t) => {
    const { fleet, upstream, node, authorization } = await startShared(t)
    const answered = new Map<string, string>()
    const given: string[] = []
    const jobs: string[] = []
    let isOver = false
    /** Calls that are sent again under their key until they are answered, or their answer is lost for good. */
    async function callOn(caller: number): Promise<void> {
      for (let number = 0; !isOver; number++) {
        const key = `call-${caller}-${number}`
        for (let isOpen = true; isOpen; ) {
          const answer = await ask(node().port, keyedUpload(key, authorization)).catch(() => null)
          const name = answer === null ? '' : nameOf(answer)
          isOpen = false
          if (answer?.status === 200) answered.set(key, answer.text)
          else if (name === '409 IDEMPOTENT_RESULT_UNAVAILABLE') given.push(key)
          else isOpen = true
          if (isOpen) await sleep(50)
        }
      }
    }
    async function submit(key: string): Promise<void> {
      for (;;) {
        const body = new Uint8Array(keyedUpload(key, authorization).body)
        const headers = { authorization, 'content-type': 'audio/wav', 'idempotency-key': key }
        const url = `${node().url}/v1/transcription/jobs`
        const response = await fetch(url, { method: 'POST', headers, body }).catch(() => null)
        const answer = (await response?.json().catch(() => null)) as { job_id?: string } | null
        if (response?.status === 202 || response?.status === 200) return void jobs.push(`${answer?.job_id}`)
        await sleep(50)
      }
    }
    const callers = Promise.all(Array.from({ length: CALLERS }, (_, caller) => callOn(caller)))
    let killed = 0
    for (let kill = 1; kill <= KILLS; kill += 1) {
      await Promise.all(Array.from({ length: JOBS_EACH }, (_, job) => submit(`job-${kill}-${job}`)))
      const before = answered.size
      t.ok(await waitUntil(() => answered.size > before + 5, 30_000), 'calls are answered')
      await sleep(Math.random() * 200)
      const pids = processesOf(node())
      if (kill % ALL_OF_THEM === 0) {
        await fleet.restartNode(0, 'SIGKILL')
        t.ok(await waitUntil(() => !pids.some(isAlive)), 'the others end with it')
      } else {
        killed += 1
        process.kill(pids[kill % pids.length]!, 'SIGKILL')
      }
      await waitUntil(() => processesOf(node()).length === PROCESSES, 30_000)
    }
    isOver = true
    await callers
    t.equal(killed, KILLS - KILLS / ALL_OF_THEM)
    for (const [key, text] of answered)
      t.match(await ask(node().port, keyedUpload(key, authorization)), { status: 200, replayed: true, text })
    const times = [...answered.keys(), ...given].map((key) => upstream.executions(key))
    t.ok(
      times.every((count) => count <= 1),
      'no key was executed twice',
    )
    const viewOf = async (id: string) => {
      const url = `${node().url}/v1/transcription/jobs/${id}`
      return (await (await fetch(url, { headers: { authorization } })).json()) as { status?: string }
    }
    const undone = async () => {
      const views = await Promise.all(jobs.map(viewOf))
      return views.filter(({ status }) => status !== 'succeeded')
    }
    t.equal(new Set(jobs).size, KILLS * JOBS_EACH, 'a job for each key')
    await waitUntil(async () => (await undone()).length === 0, 60_000)
    t.same(await undone(), [], 'every job has succeeded')
    t.comment(`${answered.size} calls, ${given.length} whose answer died, ${jobs.length} jobs`)
    t.equal(await node().signal('SIGTERM'), 0)
  },
)
