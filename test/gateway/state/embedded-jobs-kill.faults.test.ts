import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import type { Jobs } from '../../../src/contracts/jobs.ts'
import { openEmbeddedState } from '../../../src/gateway/state/embedded/state.ts'
import { claimingOf, KEEP, SUCCESS, storyOf } from '../../support/jobs-under-test.ts'
import { tempFolder } from '../../support/scratch.ts'
import { newWorkspace } from '../../support/state-under-test.ts'
import { waitUntil } from '../../support/wait-until.ts'
import type { JobsOrder } from './jobs-process.ts'
import { isSound } from './jobs-races.contract.ts'

const PROGRAM = fileURLToPath(new URL('./jobs-process.ts', import.meta.url))
const KILLS = process.env.LARKWAY_TEST_LONG === '1' ? 100 : 40
/** Processes that work on the file at the same time. */
const LANES = 4
const ENDED = ['succeeded', 'failed', 'cancelled']

/** A process that does nothing before it is told to. */
function prepare(t: Test, order: JobsOrder) {
  const child = spawn(process.execPath, [PROGRAM, JSON.stringify(order)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  const lines: string[] = []
  createInterface({ input: child.stdout }).on('line', (line) => lines.push(line))
  const closed = once(child, 'close')
  // It may be killed before it has read that.
  child.stdin.on('error', () => {})
  return {
    lines,
    begin: () => void child.stdin.write('\n'),
    kill: async (): Promise<void> => {
      child.kill('SIGKILL')
      await closed
    },
  }
}

/** What processes were told. */
interface Told {
  readonly submitted: Set<string>
  readonly ended: Map<string, string>
  readonly claims: string[]
}

function read(lines: readonly string[], told: Told): void {
  for (const line of lines) {
    const [what, id, more] = line.split(' ')
    // The last line may have been cut.
    if (id?.length !== 29) continue
    if (what === 's') told.submitted.add(id)
    if (what === 'p' && more) told.claims.push(`${id} ${more}`)
    if (what === 'e' && ENDED.includes(String(more))) told.ended.set(id, String(more))
  }
}

t.test(`processes are killed ${KILLS} times, and no job that they were told of is lost`, async (t) => {
  const file = join(await tempFolder(t), 'state.sqlite')
  const workspaces = Array.from({ length: 5 }, newWorkspace)
  const told: Told = { submitted: new Set(), ended: new Map(), claims: [] }
  const seed = Math.floor(Math.random() * 1_000_000)
  t.comment(`seed ${seed}`)
  const lane = async (number: number): Promise<void> => {
    const order = (round: number) => ({ file, workspaces, seed: seed + number * KILLS + round })
    let next = prepare(t, order(0))
    for (let round = 1; round <= KILLS / LANES; round++) {
      const now = next
      now.begin()
      // While one works the next one is loaded.
      next = prepare(t, order(round))
      const enough = 1 + Math.random() * 60
      if (!(await waitUntil(() => now.lines.length > enough, 60_000))) t.fail('it does not go on')
      await sleep(Math.random() * 20)
      await now.kill()
      read(now.lines, told)
    }
    await next.kill()
  }
  await Promise.all(Array.from({ length: LANES }, (_, number) => lane(number)))

  const state = await openEmbeddedState({ file, log: pino({ level: 'silent' }) })
  t.teardown(() => state.close())
  await check(t, state.jobs, told)
  await drain(state.jobs)
  t.equal(await state.jobs.waiting(), 0)
  await check(t, state.jobs, told)
  await state.close()
  checkFile(t, file)
})

async function check(t: Test, jobs: Jobs, { submitted, ended, claims }: Told): Promise<void> {
  t.comment(`${submitted.size} submitted, ${claims.length} taken, ${ended.size} ended`)
  t.ok(ended.size > KILLS && claims.length > ended.size / 2, 'they were at work')
  t.equal(new Set(claims).size, claims.length, 'no claim was told to two of them')
  const lost: string[] = []
  const changed: string[] = []
  const unsound: string[] = []
  const ids = [...submitted]
  for (let at = 0; at < ids.length; at += 500) {
    const some = await Promise.all(
      ids.slice(at, at + 500).map(async (id) => [id, await jobs.get(id)] as const),
    )
    for (const [id, job] of some) {
      if (!job) lost.push(id)
      else if (!isSound(storyOf(job)) || !storyOf(job).at(-1)?.startsWith(job.status))
        unsound.push(`${id}: ${storyOf(job)}`)
      const end = ended.get(id)
      if (end && job?.status !== end) changed.push(`${id}: ${end}, then ${job?.status}`)
    }
  }
  t.same(lost, [], 'each that was accepted is there')
  t.same(changed, [], 'each that had ended has stayed so')
  t.same(unsound, [], 'and all histories are sound')
}

/** Takes and ends all that is left, whoever had it. */
async function drain(jobs: Jobs): Promise<void> {
  const deadlineMs = Date.now() + 30_000
  for (let quietSinceMs = Date.now(); Date.now() < deadlineMs; ) {
    const claimed = await jobs.claim(claimingOf({ limit: 200, stalledMax: 1000 }))
    await Promise.all(claimed.map(({ job }) => jobs.end(job.id, job.fence, SUCCESS, KEEP)))
    if (claimed.length > 0) quietSinceMs = Date.now()
    // Longer than the leases of those that were killed, and than the delays that they gave.
    else if (Date.now() - quietSinceMs > 1500) return
    else await sleep(50)
  }
}

/** What no answer tells: that the rows of a job agree with each other. */
function checkFile(t: Test, file: string): void {
  const db = new DatabaseSync(file)
  const count = (sql: string) => Number(db.prepare(`SELECT count(*) AS rows FROM ${sql}`).get()?.rows)
  t.same({ ...db.prepare('PRAGMA integrity_check').get() }, { integrity_check: 'ok' })
  t.equal(count('jobs WHERE ended_at_ms IS NULL'), 0, 'all have ended, also those that nobody was told of')
  t.equal(count('jobs'), count('job_specs'))
  const announced = `jobs JOIN events ON events.job_id = jobs.id AND events.status = jobs.status`
  t.equal(count(`jobs WHERE kind = 'transcription'`), count(`${announced} WHERE events.id = jobs.event_id`))
  t.equal(count('events'), count(announced), 'each end was announced once')
  db.close()
}
