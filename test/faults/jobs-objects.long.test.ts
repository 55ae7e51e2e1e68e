import { request } from 'node:http'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import type { Objects } from '../../src/contracts/objects.ts'
import type { State } from '../../src/contracts/state.ts'
import { createFileObjects } from '../../src/gateway/storage/folder.ts'
import { createS3Objects } from '../../src/gateway/storage/s3.ts'
import { sweepOrphans } from '../../src/gateway/storage/sweep.ts'

import { keysOf, sweepOnce } from '../gateway/storage/rig.ts'
import { type Fleet, killNowAndThen, startFleet } from '../support/fleet.ts'
import { hearing, JOB_TIMING, jobTenants, KILLED_JOB_TIMING, submitJob } from '../support/fleet-jobs.ts'
import type { RedisServer } from '../support/redis-server.ts'
import type { Bucket } from '../support/s3-server.ts'
import { withoutServers } from '../support/servers.ts'
import { startUpstream } from '../support/upstream/upstream.ts'
import { clockAhead } from '../support/virtual-clock.ts'
import { waitUntil } from '../support/wait-until.ts'
import { filledWav } from '../support/wav.ts'

/** All but what nodes remember of their Redis for good. */
async function ownKeysOf(objects: Parameters<typeof keysOf>[0]): Promise<string[]> {
  return (await keysOf(objects)).filter((key) => !key.startsWith('state/'))
}

t.setTimeout(600_000)
// Most of the time they wait for the leases of what was killed. Each has options of its own: tap keeps results in them.
t.jobs = 2

const JOBS = 200
const KILLS = 6
const CALLERS = 16
const WORKSPACES = 4
/** Bodies over a few of these go to the store as they arrive. */
const ENV = { LARKWAY_MEMORY_MIB: '8', LARKWAY_JOBS_PER_WORKSPACE: '1000' }
const SMALL = filledWav(4_000, 0, 4_000)
const LARGE = filledWav(6_000_044, 1)
/** A lease of 10 s, its sweep, and the job itself; a second kill may have met the next worker. */
const SETTLED_MS = 120_000
const ENDED: readonly string[] = ['succeeded', 'failed', 'cancelled']

const log = pino({ level: 'silent' })

/** What there is in the store for jobs, by whether it belongs there. */
interface Census {
  /** Of jobs that have ended. */
  readonly ofEnded: number
  /** Of no job that has a record. */
  readonly ofNobody: number
  /** Results that their records name. */
  readonly named: number
  readonly all: number
}

async function censusOf(objects: Objects, { jobs }: Pick<State, 'jobs'>): Promise<Census> {
  const count = { ofEnded: 0, ofNobody: 0, named: 0, all: 0 }
  for (const key of await ownKeysOf(objects)) {
    count.all += 1
    const [kind, , id = ''] = key.split('/')
    if (kind !== 'job' && kind !== 'result') continue
    const job = (await jobs.known([id])).get(id)
    if (job === undefined) count.ofNobody += 1
    else if (kind === 'job' && ENDED.includes(job.status)) count.ofEnded += 1
    else if (job.result !== null && 'object' in job.result && job.result.object === key) count.named += 1
  }
  return count
}

/** What the sweeper does within the hour, at once: nothing is under way any more, so that all is old enough. */
async function sweepAll(objects: Objects, { jobs }: Pick<State, 'jobs'>): Promise<number> {
  const clock = clockAhead(3_600_000)
  await sweepOnce({ objects, log, alone: false, clock })
  return sweepOrphans(objects, new Date(clock.wallNow()), (ids) => jobs.known(ids))
}

/** Hands jobs in, cancels a few, and kills meanwhile; then looks at what is left in the store. */
async function assertSwept(t: Test, fleet: Fleet, objects: Objects): Promise<void> {
  const { workspaces, authorizationOf } = fleet
  const state = await fleet.openState()
  const url = () => fleet.node(Math.floor(Math.random() * fleet.nodes.length)).url
  const ids: string[] = []
  let handingIn = true
  const kills = killNowAndThen(fleet, (killed) => handingIn || killed < KILLS)
  const submitUntilKilled = async (caller: number) => {
    for (let at = caller; at < JOBS; at += CALLERS) {
      const authorization = authorizationOf(workspaces[at % WORKSPACES]!)
      const id = await submitJob(url, authorization, hearing(at % 10 === 0 ? LARGE : SMALL))
      ids.push(id)
      if (at % 25 === 0) await cancel(url(), id, authorization)
      await sleep(Math.random() * 400)
    }
  }
  await Promise.all(Array.from({ length: CALLERS }, (_, caller) => submitUntilKilled(caller)))
  handingIn = false
  const killed = await kills
  const haveEnded = await waitUntil(async () => {
    await sleep(250)
    // The test's own connection may still be on its way back to a Redis that was killed.
    const found = await Promise.all(ids.map((id) => state.jobs.get(id).catch(() => null)))
    return found.every((job) => job !== null && ENDED.includes(job.status))
  }, SETTLED_MS)
  t.ok(haveEnded, `${ids.length} jobs have ended, ${killed} kills`)
  // Its input goes behind the end of a job.
  await sleep(1_000)
  const before = await censusOf(objects, state)
  const swept = await sweepAll(objects, state)
  const after = await censusOf(objects, state)
  t.comment(`${JSON.stringify(before)}, ${swept} swept, then ${JSON.stringify(after)}`)
  t.same(after, { ofEnded: 0, ofNobody: 0, named: before.named, all: before.named }, 'nothing else is left')
}

async function cancel(url: string, id: string, authorization: string): Promise<void> {
  const path = `/v1/transcription/jobs/${id}`
  await fetch(url + path, { method: 'DELETE', headers: { authorization } }).catch(() => {})
}

async function startHurried(t: Test) {
  const upstream = await startUpstream(t)
  upstream.behave('whisper-1', { before: () => sleep(Math.random() * 40) })
  return upstream
}

t.test(`what ${KILLS} kills of one process leave in its folder`, { buffered: true }, async (t) => {
  const { url } = await startHurried(t)
  const tenants = jobTenants({ upstreamUrl: url, workspaces: WORKSPACES })
  const fleet = await startFleet(t, { ...tenants, env: ENV, timing: KILLED_JOB_TIMING })
  const objects = await createFileObjects(fleet.folder)
  await assertSwept(t, fleet, objects)
})

const TRANSCRIPTS = 12
const KILLS_AT_DELETION = 3
const SAID = 'what nobody may read behind that'

/** AssemblyAI's door of the one process, which is another one after each kill. */
function doorOf(fleet: Fleet) {
  const authorization = fleet.authorizationOf('ws_0')
  const ask = async (method: string, path: string, body?: string | Buffer) => {
    const contentType = typeof body === 'string' ? 'application/json' : 'application/octet-stream'
    const response = await fetch(`${fleet.node().url}/assemblyai/v2/${path}`, {
      method,
      headers: { authorization, ...(body === undefined ? {} : { 'content-type': contentType }) },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : new Uint8Array(body) }),
    })
    const text = await response.text()
    // So many texts at a time may be more than these 8 MiB hold: whoever looks for one looks again.
    const isBusy = method === 'GET' && response.status === 503
    if (response.status !== 200 && !isBusy) throw new Error(`${method} ${path}: ${text}`)
    return { text, view: JSON.parse(text) as Record<string, unknown> }
  }
  /** @returns the id of a transcript that is completed, of an upload of its own */
  const complete = async (): Promise<string> => {
    const { upload_url } = (await ask('POST', 'upload', SMALL)).view
    const { view } = await ask('POST', 'transcript', JSON.stringify({ audio_url: upload_url, prompt: SAID }))
    const id = String(view.id)
    const isCompleted = async () => (await ask('GET', `transcript/${id}`)).view.status === 'completed'
    if (!(await waitUntil(isCompleted, 30_000, 100))) throw new Error(`${id} is not completed`)
    return id
  }
  return { ask, complete }
}

/** All that the tables of a state hold. */
function rowsIn(folder: string): string {
  const db = new DatabaseSync(join(folder, 'state.sqlite'))
  const tables = db.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").all()
  const rows = tables.flatMap(({ name }) => db.prepare(`SELECT * FROM "${name}"`).all())
  db.close()
  const tell = (value: unknown) =>
    value instanceof Uint8Array ? Buffer.from(value).toString() : String(value)
  return rows.map((row) => Object.values(row).map(tell).join('\n')).join('\n')
}

t.test('what kills leave of transcripts that are being deleted', { buffered: true }, async (t) => {
  let heard = 0
  // Every other text is too long for the record.
  const script = () => ({ deltas: [SAID.repeat(heard++ % 2 === 0 ? 1 : 9_000)] })
  const upstream = await startUpstream(t, { script })
  const entry = { features: ['word_timestamps'] }
  const tenants = jobTenants({ upstreamUrl: upstream.url, entry })
  const fleet = await startFleet(t, { ...tenants, env: ENV, timing: KILLED_JOB_TIMING })
  const { ask, complete } = doorOf(fleet)
  const [objects, state] = [await createFileObjects(fleet.folder), await fleet.openState()]
  const found = { answered: 0, undone: [] as string[], unlike: [] as string[], left: [] as string[] }
  for (let kill = 0; kill < KILLS_AT_DELETION; kill += 1) {
    const ids = await Promise.all(Array.from({ length: TRANSCRIPTS }, complete))
    t.ok((await keysOf(objects, 'result/')).length > 0 && rowsIn(fleet.folder).includes(SAID), 'all is there')
    const { pid } = fleet.node()
    const firsts = new Map<string, string>()
    const deletions = ids.map(async (id) => {
      firsts.set(id, (await ask('DELETE', `transcript/${id}`)).text)
      process.kill(pid, 'SIGKILL')
    })
    await Promise.allSettled(deletions)
    await fleet.restartNode(0)
    found.answered += firsts.size
    await sweepAll(objects, state)
    let whole = 0
    for (const id of ids) {
      const isErased = (await ask('GET', `transcript/${id}`)).view.text === 'Deleted by user.'
      if (!isErased) whole += 1
      if (!isErased && firsts.has(id)) found.undone.push(id)
      const kept = isErased ? (await keysOf(objects)).filter((key) => key.includes(id)) : []
      const isTold = isErased && JSON.stringify(await state.jobs.get(id)).includes(SAID)
      found.left.push(...kept, ...(isTold ? [id] : []))
      const again = await ask('DELETE', `transcript/${id}`)
      const alike = again.view.status === 'completed' && again.view.text === 'Deleted by user.'
      if (!alike || (firsts.get(id) ?? again.text) !== again.text) found.unlike.push(again.text)
    }
    t.comment(`${firsts.size} answers at the kill, ${whole} of ${TRANSCRIPTS} not deleted`)
    t.same(await ownKeysOf(objects), [], 'neither audio nor text in the store')
    t.notOk(rowsIn(fleet.folder).includes(SAID), 'no text in the state')
  }
  const { answered, ...faults } = found
  t.same(
    faults,
    { undone: [], unlike: [], left: [] },
    'what was answered is done, and is answered alike again',
  )
  const all = KILLS_AT_DELETION * TRANSCRIPTS
  t.ok(answered > 0 && answered < all, `${answered} of ${all} were answered`)
})

/** Kills servers and workers in turn, and their Redis between them. */
function inTurn(fleet: Fleet & { readonly redis: RedisServer }): Fleet['kill'] {
  let killed = 0
  return async () => {
    const turn = killed++
    if (turn % 3 === 2) {
      await fleet.redis.kill()
      return fleet.redis.restart()
    }
    const at = Math.floor(turn / 3) % 2
    return turn % 3 === 0 ? fleet.restartNode(at) : fleet.restartWorker(at)
  }
}

function objectsIn({ env }: Bucket): Objects {
  return createS3Objects({
    endpoint: String(env.S3_ENDPOINT),
    region: String(env.S3_REGION),
    bucket: String(env.S3_BUCKET),
    accessKeyId: String(env.S3_ACCESS_KEY_ID),
    secretAccessKey: String(env.S3_SECRET_ACCESS_KEY),
  })
}

t.test(
  `what kills of servers, workers and Redis leave in the bucket`,
  { buffered: true, skip: withoutServers },
  async (t) => {
    const { url } = await startHurried(t)
    const fleet = await startFleet(t, {
      ...jobTenants({ upstreamUrl: url, workspaces: WORKSPACES }),
      ...{ nodes: 2, workers: 2, redis: { durable: true }, s3: 'shared', env: ENV, timing: JOB_TIMING },
    })
    const objects = objectsIn(fleet.bucket)
    t.teardown(() => objects.close())
    await assertSwept(t, { ...fleet, kill: inTurn(fleet) }, objects)
  },
)

t.test(
  'what a submission leaves when Redis is killed behind its body',
  { buffered: true, skip: withoutServers },
  async (t) => {
    const { url } = await startHurried(t)
    const fleet = await startFleet(t, {
      ...jobTenants({ upstreamUrl: url }),
      ...{ workers: 0, redis: { durable: true }, s3: 'shared', env: ENV, timing: JOB_TIMING },
    })
    const objects = objectsIn(fleet.bucket)
    t.teardown(() => objects.close())
    const state = await fleet.openState()
    const authorization = fleet.authorizationOf('ws_0')
    const upload = request(`${fleet.node().url}/v1/transcription/jobs`, {
      method: 'POST',
      headers: { authorization, 'content-type': 'audio/wav', 'transfer-encoding': 'chunked' },
    })
    const answered = new Promise<{ status: number | undefined; text: string }>((resolve, reject) => {
      upload.on('error', reject)
      upload.on('response', async (response) => {
        let text = ''
        for await (const chunk of response) text += chunk
        resolve({ status: response.statusCode, text })
      })
    })
    upload.write(LARGE.subarray(0, -1))
    await sleep(1_000)
    await fleet.redis.kill()
    upload.end(LARGE.subarray(-1))
    const { status, text } = await answered
    t.equal(status, 503)
    t.match(JSON.parse(text), { error: { code: 'DEPENDENCY_UNAVAILABLE', retryable: true } })
    const left = await ownKeysOf(objects)
    t.match(left, [/^job\/ws_0\/tj_/], 'nobody knows whether the job is there, so that its audio stays')

    await t.rejects(sweepAll(objects, state), { code: 'DEPENDENCY_UNAVAILABLE' })
    t.same(await ownKeysOf(objects), left, 'also as long as nobody can be asked')
    await fleet.redis.restart()
    t.ok(await waitUntil(() => state.healthy(), 10_000))
    t.same(await state.jobs.list({ workspace: null, kind: null, status: null, limit: 10 }), [])
    t.equal(await sweepAll(objects, state), 1)
    t.same(await ownKeysOf(objects), [])
  },
)
