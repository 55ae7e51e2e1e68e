import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { access, appendFile, copyFile, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import { childEnvironment } from '../support/child-environment.ts'
import { larkway } from '../support/cli.ts'
import { startLarkway } from '../support/larkway.ts'
import { spokenWords } from '../support/long-speech.ts'
import { programOf } from '../support/program.ts'
import { tempFolder } from '../support/scratch.ts'
import { waitUntil } from '../support/wait-until.ts'

t.setTimeout(600_000)

/** Backups that are killed, as many as the environment asks for. */
const ROUNDS = Number(process.env.LARKWAY_TEST_BACKUPS ?? 5)
/** A backup of a small folder takes about as long. */
const KILL_WITHIN_MS = 400
const CREDITS = 100
/** Most that a node has on lease of the credits that are left. */
const LEASE_SHARE = 0.01
const SPEECH = { input: 'hello', response_format: 'wav' }

const CONFIG = {
  rate_limit: { requests_per_minute: 1_000_000, burst: 100_000 },
  providers: { sand: { kind: 'sandbox', access: 'platform' } },
  routes: {
    main: {
      workspace: 'acme',
      entries: [
        {
          ...{ provider: 'sand', model: 'morse-1', capabilities: ['audio_input', 'audio_output'] },
          price: { per_hour_usd: 36, per_1k_characters_usd: 1 },
        },
      ],
    },
  },
}

interface Job {
  readonly status: string
  readonly result: { readonly content: string } | null
}

type Node = Awaited<ReturnType<typeof startNode>>

/** A node on a data folder, with the calls of its one workspace. */
async function startNode(t: Test, dataFolder: string, key: string, sha256: string) {
  const workspace = {
    ...{ credits_usd: CREDITS, grant_id: 'first', apps: { web: { route: 'main' } } },
    keys: [{ id: 'key_web', app: 'web', sha256 }],
  }
  const node = await startLarkway(t, {
    key,
    dataFolder,
    config: { ...CONFIG, workspaces: { acme: workspace } },
  })
  const headers = { authorization: `Bearer ${key}` }
  const json = async (path: string, init: RequestInit = {}) => {
    const response = await fetch(node.url + path, { ...init, headers: { ...headers, ...init.headers } })
    return { status: response.status, body: (await response.json()) as Record<string, unknown> }
  }
  return {
    ...node,
    json,
    submit: async (wav: Buffer, name: string) => {
      const sent = { 'content-type': 'audio/wav', 'idempotency-key': name }
      const [method, body] = ['POST', new Uint8Array(wav)]
      const { body: accepted } = await json('/v1/transcription/jobs', { method, body, headers: sent })
      return String(accepted.job_id)
    },
    hear: async (wav: Buffer, name: string) => {
      const sent = { 'content-type': 'audio/wav', 'idempotency-key': name }
      return (await json('/v1/transcription', { method: 'POST', body: new Uint8Array(wav), headers: sent }))
        .body
    },
    job: async (id: string) => (await json(`/v1/transcription/jobs/${id}`)).body as unknown as Job,
    credits: async () =>
      ((await json('/v1/me')).body as { billing: { credits_usd: number } }).billing.credits_usd,
  }
}

/** Submits jobs and makes calls, one after the other, until it is told to stop. */
function keepBusy(node: Node) {
  const jobs: { readonly id: string; readonly name: string }[] = []
  const answers: { readonly name: string; readonly body: Record<string, unknown> }[] = []
  let isOver = false
  const work = (async () => {
    for (let count = 0; !isOver; count += 1) {
      const wav = spokenWords(1 + (count % 3), 2)
      jobs.push({ id: await node.submit(wav, `job-${count}`), name: `job-${count}` })
      answers.push({ name: `call-${count}`, body: await node.hear(wav, `call-${count}`) })
      await node.json('/v1/speech', {
        method: 'POST',
        body: JSON.stringify(SPEECH),
        headers: { 'content-type': 'application/json' },
      })
    }
  })()
  return {
    jobs,
    answers,
    async stop() {
      isOver = true
      await work
    },
  }
}

t.test('a backup of a node that works is whole, also when others were killed', async (t) => {
  const key = makeKey()
  const [folder, place] = await Promise.all([tempFolder(t), tempFolder(t)])
  const node = await startNode(t, folder, key, hashKey(key))
  const made = await larkway(['key', 'create', '--workspace', 'acme', '--app', 'web'], {
    env: { LARKWAY_DATA: folder, LARKWAY_CONFIG: join(folder, 'larkway.yaml') },
  })
  const stored = /lk_live_\S+/.exec(made.output)![0]
  const load = keepBusy(node)
  await waitUntil(() => load.jobs.length > 5)
  const target = join(place, 'backup')
  const env = { LARKWAY_DATA: folder }
  const program = await programOf('cli.ts')
  for (let round = 0; round < ROUNDS; round += 1) {
    const args = [...program.args, 'backup', target]
    const child = spawn(process.execPath, args, { env: childEnvironment({ ...program.env, ...env }) })
    const ended = once(child, 'exit')
    await sleep(Math.random() * KILL_WITHIN_MS)
    child.kill('SIGKILL')
    await ended
    // One that was quicker is whole, and in the way of the next.
    await rm(target, { recursive: true, force: true })
  }
  const before = { jobs: [...load.jobs], answers: [...load.answers] }
  t.match(await larkway(['backup', target], { env }), { code: 0, errors: '' })
  await load.stop()
  const creditsThen = await node.credits()
  node.signal('SIGKILL')

  t.match(await larkway(['backup', target], { env }), { code: 1, errors: /exists already/ })
  const again = join(place, 'again')
  t.match(
    await larkway(['restore', target], { env }),
    { code: 1, errors: /is not empty/ },
    'nothing is replaced',
  )
  t.match(await larkway(['restore', target], { env: { LARKWAY_DATA: again } }), { code: 0, errors: '' })
  const restored = await startNode(t, again, key, hashKey(key))
  t.ok(before.jobs.length > 5 && before.answers.length > 5, `${before.jobs.length} jobs`)
  for (const { id, name } of before.jobs) {
    let job = await restored.job(id)
    await waitUntil(async () => {
      job = await restored.job(id)
      return job.status !== 'queued' && job.status !== 'processing'
    })
    if (job.status !== 'succeeded') t.fail(`${name} is ${job.status}`)
  }
  const [first] = before.jobs
  t.equal(await restored.submit(spokenWords(1, 2), first!.name), first!.id, 'a job is there once')
  for (const { name, body } of before.answers.slice(0, 10)) {
    const count = Number(name.slice(5))
    t.same(await restored.hear(spokenWords(1 + (count % 3), 2), name), body, `${name} is answered as before`)
  }
  const me = await fetch(`${restored.url}/v1/me`, { headers: { authorization: `Bearer ${stored}` } })
  t.equal(me.status, 200, 'a key of the state is taken')
  // The node that was copied had money on lease, which is not there until the lease is over.
  const credits = await restored.credits()
  const least = creditsThen - CREDITS * LEASE_SHARE
  t.ok(credits < CREDITS && credits >= least, `${credits} of ${creditsThen} are left`)
})

t.test('a restore that is killed, or finds another byte, leaves no node to start', async (t) => {
  const key = makeKey()
  const [folder, place] = await Promise.all([tempFolder(t), tempFolder(t)])
  const node = await startNode(t, folder, key, hashKey(key))
  const id = await node.submit(spokenWords(2, 2), 'one')
  await waitUntil(async () => (await node.job(id)).status === 'succeeded')
  const [target, again] = [join(place, 'backup'), join(place, 'again')]
  t.match(await larkway(['backup', target], { env: { LARKWAY_DATA: folder } }), { code: 0 })
  await appendFile(join(target, 'secret-key'), 'x')
  const restore = () => larkway(['restore', target], { env: { LARKWAY_DATA: again } })
  t.match(await restore(), { code: 1, errors: /secret-key is not as it was written/ })
  await t.rejects(startNode(t, again, key, hashKey(key)), 'a node does not begin anew there')
  await rm(join(target, 'secret-key'))
  await copyFile(join(folder, 'secret-key'), join(target, 'secret-key'))
  t.match(await restore(), { code: 0, errors: '' }, 'the same command mends it')
  t.same(
    (await readdir(again)).filter((name) => name.includes('draft')),
    [],
  )
  const restored = await startNode(t, again, key, hashKey(key))
  t.match(await restored.job(id), { status: 'succeeded' })
  const nothing = join(place, 'nothing')
  t.match(await larkway(['backup', nothing], { env: { LARKWAY_DATA: nothing } }), {
    code: 1,
    errors: /no state/,
  })
  await t.rejects(access(nothing))
  const redis = { REDIS_URL: 'redis://127.0.0.1:1', ...{ LARKWAY_DATA: folder } }
  t.match(await larkway(['backup', nothing], { env: redis }), { code: 1, errors: /in Redis/ })
  t.match(await larkway(['restore', folder], { env: { LARKWAY_DATA: nothing } }), {
    code: 1,
    errors: /no backup/,
  })
})
