import t, { type Test } from 'tap'
import { type EarCall, startEar } from '../support/ear.ts'
import { startFleet } from '../support/fleet.ts'
import { JOB_TIMING, jobTenants, submitJob } from '../support/fleet-jobs.ts'
import { spokenWords, wordAt } from '../support/long-speech.ts'
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

for (const kind of ['embedded', 'distributed'] as const)
  t.test(
    `a job in parts whose nodes are killed hears what is missing, and is charged once: ${kind}`,
    { skip: kind === 'distributed' ? withoutServers : false },
    async (t: Test) => {
      let reached = Promise.withResolvers<void>()
      const ear = await startEar(t, {
        maxSeconds: MAX_SECONDS,
        fault: async (index) => {
          if (!KILLS_AT.includes(index)) return null
          reached.resolve()
          // The node that waits for it is gone before there is an answer.
          await new Promise(() => {})
          return null
        },
      })
      const servers = kind === 'distributed' ? { redis: { durable: true }, s3: 'shared' as const } : {}
      const fleet = await startFleet(t, {
        ...jobTenants({
          upstreamUrl: ear.url,
          provider: { concurrency: AT_ONCE },
          entry: {
            limits: { max_audio_seconds: MAX_SECONDS },
            price: { per_hour_usd: 3600 * PRICE_PER_SECOND },
          },
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
      const wav = spokenWords(COUNT, EVERY_SECONDS)
      const id = await submitJob(() => fleet.node().url, authorization, {
        path: '/v1/transcription/jobs',
        contentType: 'audio/wav',
        body: new Uint8Array(wav),
      })
      const show = async () => (await ask(`/v1/transcription/jobs/${id}`)) as JobObject
      for (const [kill] of KILLS_AT.entries()) {
        await reached.promise
        reached = Promise.withResolvers()
        const { progress } = await show()
        t.ok(progress !== null && progress.done > 0, `${progress?.done} parts are done at kill ${kill}`)
        await fleet.kill()
      }
      let job = await show()
      await waitUntil(async () => {
        job = await show()
        return job.status !== 'queued' && job.status !== 'processing'
      }, 120_000)
      t.equal(job.status, 'succeeded')
      const { content, parts, cost_usd: cost } = job.result!
      t.equal(content, Array.from({ length: COUNT }, (_, index) => wordAt(index)).join(' '))
      const most = parts.length + KILLS_AT.length * AT_ONCE
      t.ok(ear.heard.length <= most, `${ear.heard.length} requests for ${parts.length} parts`)
      const twice = ear.heard.length - new Set(ear.heard.map(({ words }: EarCall) => words.join(' '))).size
      t.ok(twice <= KILLS_AT.length * AT_ONCE, 'only what was under way is heard again')
      const micros = parts.reduce((sum, part) => sum + Math.round(part.cost_usd * 1e6), 0)
      t.equal(Math.round(cost * 1e6), micros, 'it costs what its parts cost')
      const credits = async () =>
        ((await ask('/v1/me')) as { billing: { credits_usd: number } }).billing.credits_usd
      await waitUntil(async () => Math.abs(CREDITS - (await credits()) - cost) < 1e-9, 30_000)
      t.equal(Math.round((CREDITS - (await credits())) * 1e6), micros, 'and is charged once')
    },
  )
