import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { type EarCall, startEar } from '../support/ear.ts'
import { type FleetOptions, startFleet } from '../support/fleet.ts'
import { JOB_TIMING, jobTenants, submitJob } from '../support/fleet-jobs.ts'
import { spokenWords, wordAt } from '../support/long-speech.ts'
import { startS3 } from '../support/s3-server.ts'
import { withoutServers } from '../support/servers.ts'
import { waitUntil } from '../support/wait-until.ts'

t.setTimeout(240_000)

const COUNT = 60
const EVERY_SECONDS = 3
const MAX_SECONDS = 25
const PRICE_PER_SECOND = 0.001
const CREDITS = 100
/** Parts that are heard at a time: as many may be under way when a node dies. */
const AT_ONCE = 2
/** The request at which the store stalls, and for how long. */
const STALL_AT = 3
const STALL_MS = 3_000
/** Requests at which a node is killed, while the provider has them. */
const KILLS_AT = [3, 8]

interface Transcript {
  readonly content: string
  readonly cost_usd: number
  readonly parts: readonly { readonly cost_usd: number }[]
}

interface JobObject {
  readonly status: string
  readonly progress: { readonly done: number; readonly total: number } | null
  readonly result: Transcript | null
}

interface RigOptions extends Pick<FleetOptions, 'redis' | 's3'> {
  readonly fault: (index: number) => Promise<null>
  /** Parts that are heard at a time. */
  readonly atOnce: number
}

/** A fleet that was sent a recording as a job, whose provider takes parts of it. */
async function start(t: Test, { fault, atOnce, ...servers }: RigOptions) {
  const ear = await startEar(t, { maxSeconds: MAX_SECONDS, fault })
  const fleet = await startFleet(t, {
    ...jobTenants({
      upstreamUrl: ear.url,
      provider: { concurrency: atOnce },
      entry: { limits: { max_audio_seconds: MAX_SECONDS }, price: { per_hour_usd: 3600 * PRICE_PER_SECOND } },
      terms: { credits_usd: CREDITS, grant_id: 'first' },
    }),
    ...servers,
    timing: JOB_TIMING,
  })
  const authorization = fleet.authorizationOf('ws_0')
  const ask = async (path: string) => {
    const response = await fetch(fleet.node().url + path, { headers: { authorization } })
    return (await response.json()) as unknown
  }
  const id = await submitJob(() => fleet.node().url, authorization, {
    path: '/v1/transcription/jobs',
    contentType: 'audio/wav',
    body: new Uint8Array(spokenWords(COUNT, EVERY_SECONDS)),
  })
  const show = async () => (await ask(`/v1/transcription/jobs/${id}`)) as JobObject
  return { ear, fleet, ask, show }
}

type Rig = Awaited<ReturnType<typeof start>>

/** Waits for the end of the job: every word once, and one charge of what its parts cost. */
async function checkWhole(t: Test, { ask, show }: Rig): Promise<Transcript> {
  let job = await show()
  await waitUntil(async () => {
    job = await show()
    return job.status !== 'queued' && job.status !== 'processing'
  }, 120_000)
  t.equal(job.status, 'succeeded')
  const { content, parts, cost_usd: cost } = job.result!
  t.equal(content, Array.from({ length: COUNT }, (_, index) => wordAt(index)).join(' '))
  const micros = parts.reduce((sum, part) => sum + Math.round(part.cost_usd * 1e6), 0)
  t.equal(Math.round(cost * 1e6), micros, 'it costs what its parts cost')
  const credits = async () =>
    ((await ask('/v1/me')) as { billing: { credits_usd: number } }).billing.credits_usd
  await waitUntil(async () => Math.abs(CREDITS - (await credits()) - cost) < 1e-9, 30_000)
  t.equal(Math.round((CREDITS - (await credits())) * 1e6), micros, 'and is charged once')
  return job.result!
}

function heardTwice({ ear }: Rig): number {
  return ear.heard.length - new Set(ear.heard.map(({ words }: EarCall) => words.join(' '))).size
}

for (const kind of ['embedded', 'distributed'] as const)
  t.test(
    `a job in parts whose nodes are killed hears what is missing, and is charged once: ${kind}`,
    { skip: kind === 'distributed' ? withoutServers : false },
    async (t: Test) => {
      let reached = Promise.withResolvers<void>()
      const rig = await start(t, {
        atOnce: AT_ONCE,
        fault: async (index) => {
          if (!KILLS_AT.includes(index)) return null
          reached.resolve()
          // The node that waits for it is gone before there is an answer.
          await new Promise(() => {})
          return null
        },
        ...(kind === 'distributed' ? { redis: { durable: true }, s3: 'shared' } : {}),
      })
      for (const [kill] of KILLS_AT.entries()) {
        await reached.promise
        reached = Promise.withResolvers()
        const { progress } = await rig.show()
        t.ok(progress !== null && progress.done > 0, `${progress?.done} parts are done at kill ${kill}`)
        await rig.fleet.kill()
      }
      const { parts } = await checkWhole(t, rig)
      const most = parts.length + KILLS_AT.length * AT_ONCE
      t.ok(rig.ear.heard.length <= most, `${rig.ear.heard.length} requests for ${parts.length} parts`)
      t.ok(heardTwice(rig) <= KILLS_AT.length * AT_ONCE, 'only what was under way is heard again')
    },
  )

t.test(
  'a store that stalls, and ends, in the middle of a job in parts',
  { skip: withoutServers },
  async (t) => {
    const s3 = await startS3(t)
    const stalled = Promise.withResolvers<void>()
    const rig = await start(t, {
      atOnce: 1,
      // The answer comes when nothing can be kept of it.
      fault: async (index) => {
        if (index === STALL_AT) {
          s3.freeze()
          stalled.resolve()
        }
        return null
      },
      redis: { durable: true },
      s3,
    })
    await stalled.promise
    await sleep(STALL_MS)
    await s3.restart()
    const { parts } = await checkWhole(t, rig)
    t.equal(rig.ear.heard.length, parts.length, 'no part is heard, and paid for, twice')
    t.equal(heardTwice(rig), 0)
  },
)
