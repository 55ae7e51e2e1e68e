import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { startRedis } from '../support/redis-server.ts'
import { type Teardown, tempFolder } from '../support/scratch.ts'
import { waitUntil } from '../support/wait-until.ts'
import { abandon, attacksOn, rawAttacks, type Told, tellRaw } from './canary-attacks.ts'
import { type Ask, CASES } from './canary-cases.ts'
import { watchProcess } from './canary-process.ts'
import type { CanaryRig } from './canary-rig.ts'
import type { CanaryRun } from './canary-run.ts'
import type { Mood } from './canary-upstream.ts'

/** How the two providers fare, one after the other. */
const MOODS: readonly (readonly [Mood, Mood])[] = [
  [500, 'good'],
  ['html', 'garbage'],
  [400, 400],
  ['policy', 'policy'],
  ['cut', 'cut'],
  [401, 429],
  [404, 503],
  ['hang', 'hang'],
]
/** Paths that call a provider, or order it. */
const CALLS = /^POST \/(?:v1\/(?!transcription\/jobs|queue)|openai)/

function setMoods({ upstream }: CanaryRig, own: Mood, shared: Mood = own): void {
  upstream.set('own', own)
  upstream.set('shared', shared)
}

function put(path: string, body: object): Ask {
  const headers = { 'content-type': 'application/json' }
  return { method: 'PUT', path: `/workspace/acme/${path}`, headers, body: JSON.stringify(body) }
}

function heard(run: CanaryRun, more: Partial<Ask> = {}): Ask {
  const headers = { 'content-type': 'audio/wav', ...more.headers }
  return { method: 'POST', path: '/v1/transcription', body: run.songs.wav, ...more, headers }
}

const submitted = (run: CanaryRun) =>
  heard(run, { path: `/v1/transcription/jobs?prompt=${run.songs.prompt}` })

/** All that is as it should be, on every path. */
export async function askWell(run: CanaryRun): Promise<void> {
  await run.askAll([
    put('audio-url-domains', { domains: ['good.example', 'gone.example'] }),
    put('stt-webhook', { url: run.songs.hookUrl }),
  ])
  await run.signIn()
  await run.askAll(run.goods())
}

/** All that is not, on every path. */
export async function askBadly(run: CanaryRun, rig: CanaryRig): Promise<void> {
  const { all, little } = rig.authorization
  const noise = { text: run.noise, all, little }
  const firsts = Object.values(CASES).flatMap((make) => make(run.songs, run.found).slice(0, 1))
  await run.askAll(
    firsts.flatMap((ask) => attacksOn(ask, noise)),
    null,
  )
  for (const bytes of rawAttacks(noise)) run.judgeRaw(await tellRaw(rig.port, bytes))
}

/** Callers and bodies that come to a limit. */
export async function askTooMuch(run: CanaryRun): Promise<void> {
  const { wav, audioUrl } = run.songs
  for (const caller of ['hurried', 'hurried', 'poor'] as const)
    await run.askAll(run.goods(CALLS).slice(0, 5), caller)
  const large = Buffer.concat([wav, Buffer.alloc(420_000, wav.subarray(44))])
  const huge = Buffer.concat([large, large])
  const urls = ['moved', 'astray', 'lost', 'failed', 'page', 'endless'].map((what) =>
    audioUrl.replace('audio?', `${what}?`),
  )
  const elsewhere = [
    ...urls,
    audioUrl.replace('good.example', '127.0.0.1'),
    audioUrl.replace('good.example', 'good.example:8443'),
  ]
  await run.askAll([
    heard(run, { body: large }),
    heard(run, { body: huge }),
    heard(run, { body: wav.subarray(44) }),
    ...elsewhere.map((url) => ({
      ...heard(run, { headers: { 'content-type': 'application/json' } }),
      body: JSON.stringify({ audio: { url } }),
    })),
  ])
}

/** One key in all of its states, on every path that takes one. */
export async function askAgain(run: CanaryRun, rig: CanaryRig): Promise<void> {
  const paths = [
    '/v1/transcription',
    '/v1/translation',
    '/v1/transcription/jobs',
    '/openai/v1/audio/transcriptions',
  ]
  const asks = paths.map((path) => run.goods(new RegExp(`^POST ${path}$`)))
  const keyed = (state: string, which = 0) =>
    asks.map((those, index) => {
      const { headers, ...ask } = those[which]!
      return { ...ask, headers: { ...headers, 'idempotency-key': `${run.noise}-${index}-${state}` } }
    })
  await run.askAll(keyed('stored'))
  await run.askAll([...keyed('stored'), ...keyed('stored', 1)])
  setMoods(rig, 'slow')
  await run.askAll([...keyed('running'), ...keyed('running'), ...keyed('running')])
  setMoods(rig, 'hang')
  await run.askAll(keyed('burned'))
  await run.askAll(keyed('burned'))
  setMoods(rig, 'good')
}

/** Callers who do not wait. */
export async function askAndLeave(run: CanaryRun, rig: CanaryRig): Promise<void> {
  setMoods(rig, 'slow')
  const { all: authorization } = rig.authorization
  const asks = run.goods(CALLS)
  for (let at = 0; at < asks.length; at += 8) {
    await Promise.all(
      asks.slice(at, at + 8).flatMap((ask, index) => [
        abandon(rig.port, { ...ask, headers: { ...ask.headers, authorization } }),
        abandon(rig.port, {
          ...ask,
          headers: { ...ask.headers, authorization, 'idempotency-key': `${run.noise}-left-${at + index}` },
        }),
      ]),
    )
  }
  setMoods(rig, 'good')
}

/** Providers that fail in every way. */
export async function askTheUnwell(run: CanaryRun, rig: CanaryRig): Promise<void> {
  for (const [own, shared] of MOODS) {
    setMoods(rig, own, shared)
    await run.askAll(run.goods(CALLS), 'all', 64)
  }
  setMoods(rig, 'good')
}

function jobOf(told: Told | null): string {
  const { job_id: id } = JSON.parse(String(told?.body ?? '{}')) as { job_id?: string }
  if (id === undefined) throw new Error(`no job: ${told?.status} ${told?.body}`)
  return id
}

/** @returns how each job ended: one that succeeds, one large, one that fails, one cancelled */
export async function handIn(run: CanaryRun, rig: CanaryRig): Promise<string[]> {
  const ends: string[] = []
  for (const mood of ['good', 'long', 400, 'hang'] as const) {
    setMoods(rig, mood)
    if (mood === 400)
      await run.ask(
        put('stt-webhook', { url: run.songs.hookUrl.replace('hooks.example/hook', 'gone.example/gone') }),
      )
    const id = jobOf(await run.ask(submitted(run)))
    const path = `/v1/transcription/jobs/${id}`
    if (mood === 'hang') {
      await sleep(1_000)
      await run.ask({ method: 'DELETE', path })
    }
    let status = ''
    const isOver = async () => {
      const told = await run.ask({ method: 'GET', path })
      status = String((JSON.parse(String(told?.body)) as { status: string }).status)
      return !['queued', 'processing'].includes(status)
    }
    await waitUntil(isOver, 30_000)
    ends.push(status)
    run.found.jobId = id
  }
  setMoods(rig, 'good')
  await run.askAll(run.goods(/results|jobs\/:job_id/))
  return ends
}

/** What the state has of a job is broken: nobody but the log is told how. @returns whether that was a 500 */
export async function breakRecord(run: CanaryRun, rig: CanaryRig): Promise<boolean> {
  if (rig.redis === null) return true
  const id = jobOf(await run.ask(submitted(run)))
  const redis = new Redis({ host: '127.0.0.1', port: rig.redis.port, password: rig.redisPassword })
  const broken: string[] = []
  for (const key of await redis.keys(`*${id}*`)) {
    if ((await redis.type(key)) !== 'hash') continue
    await redis.hset(key, 'spec', `${run.songs.prompt} {`)
    broken.push(key)
  }
  const told = await run.ask({ method: 'GET', path: `/v1/transcription/jobs/${id}` })
  await redis.del(...broken)
  redis.disconnect()
  return told?.status === 500
}

/** A configuration that is not taken, with a secret where none belongs. */
export async function misconfigure(rig: CanaryRig, secret: string): Promise<void> {
  const [server] = rig.processes
  for (const text of [`providers: { own: { api_key: ${secret} } }`, `"${secret}`, `a: *${secret}`]) {
    await writeFile(rig.configFile, text)
    server?.signal('SIGHUP')
    await sleep(300)
  }
  await server?.said('configuration refused, the old one stays')
}

/** State and store that do not answer any more. */
export async function loseServers(run: CanaryRun, rig: CanaryRig): Promise<void> {
  if (rig.redis === null || rig.s3 === null) return
  const asks = [
    ...run.goods(/jobs|queue|\/v1\/transcription$|workspace|chat$/),
    heard(run, { headers: { 'idempotency-key': run.noise } }),
  ]
  await rig.s3.kill()
  await run.askAll(asks)
  await rig.redis.kill()
  await run.askAll(asks)
}

/** Ends a process while it works. @returns its exit code */
export async function stopAtWork(run: CanaryRun, rig: CanaryRig): Promise<number | null> {
  const [server] = rig.processes
  setMoods(rig, 'slow')
  const asked = run.askAll(run.goods(CALLS).slice(0, 16))
  await sleep(150)
  server?.signal('SIGTERM')
  await asked
  return (await server?.ended) ?? null
}

/** Breaks every process from inside. @returns whether each said so, and ended with 1 */
export async function crash(rig: CanaryRig): Promise<boolean> {
  const ends = rig.processes.map(async (broken) => {
    broken.signal('SIGUSR2')
    const code = await broken.ended
    return code === 1 && broken.lines().some(({ msg, level }) => msg === 'crashed' && level === 'fatal')
  })
  return (await Promise.all(ends)).every(Boolean)
}

/** Starts the product with what it cannot start with, a secret in each. @returns the output of each */
export async function startWrongly(t: Teardown, secret: string): Promise<Buffer[]> {
  const folder = await tempFolder(t)
  const redis = await startRedis(t, { args: ['--requirepass', 'another', '--rename-command', 'AUTH', ''] })
  const texts = [
    `providers: { own: { kind: openai, api_key: ${secret} } }`,
    `a: "${secret}`,
    `${secret}: *${secret}`,
  ]
  const files = await Promise.all(
    texts.map(async (text, index) => {
      const file = join(folder, `${index}.yaml`)
      await writeFile(file, text)
      return { LARKWAY_CONFIG: file }
    }),
  )
  const environments: Record<string, string>[] = [
    ...files,
    { LARKWAY_SECRET_KEYS: secret },
    { PORT: secret, LOG_LEVEL: secret, LARKWAY_PUBLIC_URL: secret },
    { REDIS_URL: `redis://:${secret}@` },
    { REDIS_URL: `redis://:${secret}@127.0.0.1:${redis.port}` },
    { S3_SECRET_ACCESS_KEY: secret },
  ]
  const outputs: Buffer[] = []
  for (const [index, env] of environments.entries()) {
    const data = join(folder, `data-${index}`)
    const started = await watchProcess(t, ['main.ts'], {
      PORT: '0',
      LOG_LEVEL: 'trace',
      LARKWAY_DATA: data,
      ...env,
    })
    // The one whose Redis is strange goes on.
    const goesOn = waitUntil(() => started.output().length > 0, 60_000).then(() => sleep(1_500))
    await Promise.race([started.ended, goesOn])
    started.signal('SIGKILL')
    await started.ended
    outputs.push(started.output())
  }
  return outputs
}
