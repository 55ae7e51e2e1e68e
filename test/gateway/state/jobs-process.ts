import { once } from 'node:events'
import { pino } from 'pino'
import { GatewayError } from '../../../src/contracts/errors.ts'
import type { Job, JobEnding } from '../../../src/contracts/jobs.ts'
import { openEmbeddedState } from '../../../src/gateway/state/embedded/state.ts'
import { Dice } from '../../support/dice.ts'
import {
  CANCELLATION,
  claimingOf,
  FAILURE,
  KEEP,
  RETURN,
  SUCCESS,
  specOf,
} from '../../support/jobs-under-test.ts'

/**
 * What a process does with jobs on a file, once it is told to begin by a byte on standard input: it submits, takes,
 * ends and cancels jobs without end. Each answer is told on standard output: `s <id>` submitted, `p <id> <fence>`
 * taken, `e <id> <status>` ended or cancelled.
 */
export interface JobsOrder {
  readonly file: string
  readonly workspaces: readonly string[]
  readonly seed: number
}

/** So many are at work at a time. */
const WORKERS = 8
const RETRY: JobEnding = { state: 'queued', delayMs: 50, counts: 'retry' }
const ENDINGS: readonly JobEnding[] = [SUCCESS, SUCCESS, SUCCESS, FAILURE, CANCELLATION, RETURN, RETRY]
/** Short, so that what a killed process had is taken over by those that follow. */
const LEASE_MS = 1000

const { file, workspaces, seed } = JSON.parse(process.argv[2] ?? '') as JobsOrder
const dice = new Dice(seed)
const say = (line: string) => process.stdout.write(`${line}\n`)

await once(process.stdin, 'data')
const { jobs } = await openEmbeddedState({ file, log: pino({ level: 'silent' }) })
await Promise.all(Array.from({ length: WORKERS }, work))

async function work(): Promise<never> {
  for (;;) {
    try {
      await workOnce()
    } catch (error) {
      // Other processes write as well: it may take them too long for an answer.
      if (!(error instanceof GatewayError && error.code === 'DEPENDENCY_UNAVAILABLE')) throw error
    }
  }
}

async function workOnce(): Promise<void> {
  for (let more = 1 + dice.below(3); more > 0; more--) await submit()
  const claiming = claimingOf({
    limit: 1 + dice.below(4),
    perWorkspace: 6,
    leaseMs: LEASE_MS,
    stalledMax: 1000,
  })
  for (const { job } of await jobs.claim(claiming)) {
    say(`p ${job.id} ${job.fence}`)
    if (dice.chance(0.1)) await cancel(job.id, job.workspace)
    tell(await jobs.end(job.id, job.fence, dice.one(ENDINGS), KEEP))
  }
}

async function submit(): Promise<void> {
  const workspace = dice.one(workspaces)
  const kind = dice.one(['transcription', 'queue'] as const)
  const mode = dice.one(['priority', 'standard', 'bulk'] as const)
  const spec = specOf(workspace, { kind, mode })
  await jobs.submit({ spec, slot: null })
  say(`s ${spec.id}`)
  if (dice.chance(0.1)) await cancel(spec.id, workspace)
}

async function cancel(id: string, workspace: string): Promise<void> {
  tell(await jobs.cancel(id, { workspace, app: 'web' }, KEEP))
}

function tell(job: Job | null): void {
  if (job && job.endedAtMs !== null) say(`e ${job.id} ${job.status}`)
}
