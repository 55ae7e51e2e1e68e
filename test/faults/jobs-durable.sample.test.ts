import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { type Fleet, startFleet } from '../support/fleet.ts'
import { hearing, jobTenants, submitJob } from '../support/fleet-jobs.ts'
import type { RedisOptions } from '../support/redis-server.ts'
import { type Teardown, tempFolder } from '../support/scratch.ts'
import { filledWav } from '../support/wav.ts'

/** Why system calls cannot be watched here; false when they can. For the `skip` of a test. */
const unwatchable = spawnSync('strace', ['-e', 'trace=none', 'true']).status !== 0 && 'there is no strace'

interface Watch {
  /** Stops watching. @returns one line for each call, in the order in which they began */
  stop(): Promise<readonly string[]>
}

/** How much of the bytes that a call is given is written down. */
const TEXT_BYTES = 8_192
const ATTACHED_MS = 10_000

/** Watches the system calls of all threads of a process. */
async function watchSyscalls(t: Teardown, pid: number, calls: readonly string[]): Promise<Watch> {
  const file = join(await tempFolder(t), 'calls')
  const args = ['-f', '-p', `${pid}`, '-e', `trace=${calls.join(',')}`, '-s', `${TEXT_BYTES}`, '-o', file]
  const strace = spawn('strace', args, { stdio: ['ignore', 'ignore', 'pipe'] })
  const end = async () => {
    if (strace.exitCode !== null || strace.signalCode !== null) return
    const ended = once(strace, 'exit')
    strace.kill('SIGINT')
    await ended
  }
  t.teardown(end)
  await attached(strace)
  return {
    async stop() {
      await end()
      return (await readFile(file, 'latin1')).split('\n')
    },
  }
}

async function attached(strace: ChildProcess): Promise<void> {
  let said = ''
  strace.stderr?.setEncoding('utf8').on('data', (text: string) => {
    said += text
  })
  const untilMs = performance.now() + ATTACHED_MS
  while (!/attached/.test(said)) {
    if (strace.exitCode !== null || performance.now() > untilMs) throw new Error(`strace: ${said}`)
    await sleep(20)
  }
}

t.setTimeout(180_000)

const JOBS = 20

/** A server that takes jobs on and works on none, so that nothing else is written. */
async function startTaker<const Servers extends { readonly redis?: RedisOptions }>(
  t: Test,
  servers: Servers,
) {
  const fleet = await startFleet(t, {
    ...jobTenants({ upstreamUrl: 'http://127.0.0.1:9/v1' }),
    ...servers,
    workers: 0,
  })
  // The first one loads what all others find.
  await submitOne(fleet)
  return fleet
}

function submitOne({ node, authorizationOf }: Fleet, wav?: Buffer): Promise<string> {
  return submitJob(() => node().url, authorizationOf('ws_0'), hearing(wav))
}

async function submitMany(fleet: Fleet, wav?: Buffer): Promise<string[]> {
  const ids: string[] = []
  for (let i = 0; i < JOBS; i += 1) ids.push(await submitOne(fleet, wav))
  return ids
}

/** Of how many jobs Redis had its file forced to the disk between the command and its answer. */
async function forcedByRedis(t: Test, options: RedisOptions): Promise<number> {
  const fleet = await startTaker(t, { redis: options })
  const watch = await watchSyscalls(t, fleet.redis.pid, ['read', 'write', 'writev', 'fdatasync'])
  const ids = await submitMany(fleet)
  const calls = await watch.stop()
  return ids.filter((id) => {
    const asked = calls.findIndex((call) => /\bread\(/.test(call) && call.includes(id))
    const connection = /\bread\((\d+),/.exec(calls[asked] ?? '')?.[1]
    if (connection === undefined) throw new Error(`Redis never heard of ${id}`)
    const answer = new RegExp(`\\bwritev?\\(${connection},`)
    const answered = calls.findIndex((call, at) => at > asked && answer.test(call))
    if (answered < 0) throw new Error(`no answer about ${id} was seen`)
    return calls.slice(asked, answered).some((call) => /\bfdatasync\(.*= 0$/.test(call))
  }).length
}

t.test(
  'what Redis is told with appendfsync always is on the disk before it answers',
  { skip: unwatchable },
  async (t) => {
    t.equal(await forcedByRedis(t, { durable: true }), JOBS)
  },
)

t.test('with everysec it is not, so that this would be seen', { skip: unwatchable }, async (t) => {
  const forced = await forcedByRedis(t, { durable: true, args: ['--appendfsync', 'everysec'] })
  t.ok(forced < JOBS / 2, `${forced} of ${JOBS}`)
})

/** The files that were forced to the disk. */
function forced(calls: readonly string[]): Set<string> {
  const found = calls.flatMap((call) => /\bf(?:data)?sync\((\d+)/.exec(call)?.[1] ?? [])
  return new Set(found)
}

/** What a server does from one 202 to the next, by the id of the job that it answers for. */
async function callsByJob(t: Test, wav?: Buffer): Promise<ReadonlyMap<string, readonly string[]>> {
  const fleet = await startTaker(t, {})
  const names = ['fsync', 'fdatasync', 'rename', 'sendto', 'write', 'writev']
  const watch = await watchSyscalls(t, fleet.node().pid, names)
  const ids = await submitMany(fleet, wav)
  const calls = await watch.stop()
  const found = new Map<string, readonly string[]>()
  let from = 0
  for (const id of ids) {
    const isAnswer = (call: string, at: number) =>
      at >= from && call.includes('202 Accepted') && call.includes(id)
    const until = calls.findIndex(isAnswer)
    if (until < 0) throw new Error(`no answer of ${id} was seen`)
    found.set(id, calls.slice(from, until))
    from = until + 1
  }
  return found
}

const isRename = (call: string) => /\brename\(/.test(call)

t.test(
  'the audio, its folder and the state are forced to the disk before the 202',
  { skip: unwatchable },
  async (t) => {
    for (const [id, calls] of await callsByJob(t, filledWav(80_000))) {
      const renamed = calls.findIndex((call) => isRename(call) && call.includes(id))
      const audio = forced(calls.slice(0, renamed))
      const behind = forced(calls.slice(renamed))
      t.ok(audio.size >= 1 && behind.size >= 2, `${id}: ${calls.join('\n')}`)
    }
  },
)

t.test(
  'small audio is in the state, which alone is forced to the disk before the 202',
  { skip: unwatchable },
  async (t) => {
    for (const [id, calls] of await callsByJob(t)) {
      t.equal(forced(calls).size, 1, `${id}: ${calls.join('\n')}`)
      t.notOk(calls.some(isRename))
    }
  },
)
