import { randomBytes } from 'node:crypto'
import { GetObjectCommand, PutObjectCommand } from '@aws-sdk/client-s3'
import t from 'tap'
import { startFleet } from '../support/fleet.ts'
import { hearing, JOB_TIMING, jobTenants, submitJob } from '../support/fleet-jobs.ts'
import { s3ClientOf } from '../support/s3-server.ts'
import { withoutServers } from '../support/servers.ts'
import { startUpstream } from '../support/upstream/upstream.ts'
import { waitUntil } from '../support/wait-until.ts'
import { filledWav } from '../support/wav.ts'

t.setTimeout(180_000)

/** Jobs of each size; of half of them the store gives a byte wrongly. */
const JOBS = 8
/** The larger one does not fit into memory, so that it is streamed into the store. */
const SIZES = { small: 4_000, large: 6_000_044 }
/** The second try comes after the bytes of one were mended. */
const TIMING = { jobs: { ...JOB_TIMING.jobs, retryMs: [3_000, 200] } }
const ENV = { LARKWAY_MEMORY_MIB: '8', LARKWAY_JOBS_PER_WORKSPACE: '1000' }

t.test(
  'no provider hears audio of a job that is not as it came, and such a job fails',
  { skip: withoutServers },
  async (t) => {
    const upstream = await startUpstream(t)
    const fleet = await startFleet(t, {
      ...jobTenants({ upstreamUrl: upstream.url }),
      ...{ workers: 0, redis: {}, s3: 'shared', env: ENV, timing: TIMING },
    })
    const { jobs } = await fleet.openState()
    const client = s3ClientOf(fleet.s3!)
    t.teardown(() => client.destroy())
    const Bucket = fleet.bucket!.env.S3_BUCKET
    async function flip(Key: string): Promise<void> {
      const { Body } = await client.send(new GetObjectCommand({ Bucket, Key }))
      const bytes = await Body!.transformToByteArray()
      bytes[bytes.length - 1_000]! ^= 1
      await client.send(new PutObjectCommand({ Bucket, Key, Body: bytes }))
    }

    const authorization = fleet.authorizationOf('ws_0')
    const ids: { readonly whole: string[]; readonly flipped: string[] } = { whole: [], flipped: [] }
    for (const bytes of Object.values(SIZES))
      for (let i = 0; i < JOBS; i += 1) {
        const wav = filledWav(bytes)
        randomBytes(bytes - 44).copy(wav, 44)
        const id = await submitJob(() => fleet.node().url, authorization, hearing(wav))
        const [key] = (await fleet.bucket!.contents()).filter((one) => one.includes(`/${id}/`))
        if (i % 2 === 1) await flip(key!)
        ids[i % 2 === 1 ? 'flipped' : 'whole'].push(id)
      }
    // This one is right again when it is read the second time.
    const [mended] = ids.flipped
    const [key] = (await fleet.bucket!.contents()).filter((one) => one.includes(`/${mended}/`))

    await fleet.startWorker()
    const jobOf = async (id: string) => (await jobs.get(id))!
    t.ok(await waitUntil(async () => (await jobOf(mended!)).retries > 0, 60_000), 'it is tried again')
    await flip(key!)
    for (const id of [...ids.whole, mended!])
      t.ok(await waitUntil(async () => (await jobOf(id)).status === 'succeeded', 60_000), id)
    for (const id of ids.flipped.slice(1)) {
      t.ok(await waitUntil(async () => (await jobOf(id)).status === 'failed', 120_000), id)
      t.match((await jobOf(id)).error, { code: 'INTERNAL' })
    }
    t.equal(upstream.received.length, ids.whole.length + 1, 'and the provider had nothing else whole')
  },
)
