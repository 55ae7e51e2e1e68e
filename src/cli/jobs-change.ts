import { CatalogError } from '../catalog/watch.ts'
import { noteChange } from '../routes/audit-note.ts'
import { jobCancellation, jobRetry } from '../routes/job-notes.ts'
import { retentionOf } from '../routes/jobs/retention.ts'
import type { Job, Retention } from '../schema/jobs.ts'
import type { State } from '../schema/state.ts'
import { CommandFailure, parse } from './arguments.ts'
import { commandActor, type Desk, environmentOf, servedAt } from './desk.ts'
import { jobIdOf } from './jobs-show.ts'
import { withState } from './state.ts'

/**
 * `larkway jobs retry ID`: a failed job of the queue is queued again.
 *
 * @throws UsageError, CommandFailure for a job that is none, which says why
 */
export async function retryJob(args: readonly string[], desk: Desk): Promise<void> {
  const id = jobIdOf('retry', parse(args, {}, 1).positionals)
  await withState(environmentOf(desk), async ({ catalog, jobs }) => {
    const job = await jobs.get(id)
    if (job?.kind === 'queue' && job.status === 'failed')
      await noteChange(catalog, jobRetry(job, commandActor('jobs retry')))
    if (!(await jobs.retry(id))) throw new CommandFailure(whyNot(id, await jobs.get(id)))
  })
  desk.print(`${id} is queued again\n`)
}

function whyNot(id: string, job: Job | null): string {
  if (job === null) return unknown(id)
  if (job.kind !== 'queue')
    return `${id} is a transcription job: its caller was told of its end, and sends a new one`
  return `${id} is ${job.status}: only a job of the queue that failed is queued again`
}

/**
 * `larkway jobs cancel ID`: as if its owner had cancelled it.
 *
 * @throws UsageError, CommandFailure for a job that is not there
 */
export async function cancelJob(args: readonly string[], desk: Desk): Promise<void> {
  const { values, positionals } = parse(args, { config: { type: 'string' } }, 1)
  const id = jobIdOf('cancel', positionals)
  const { before, after } = await withState(environmentOf(desk), async (state) => {
    const { catalog, jobs } = state
    const keep = await retentionServed(desk, values.config, state)
    const before = await jobs.get(id)
    if (before === null) throw new CommandFailure(unknown(id))
    const { workspace, app, endedAtMs } = before
    if (endedAtMs === null) await noteChange(catalog, jobCancellation(before, commandActor('jobs cancel')))
    return { before, after: await jobs.cancel(id, { workspace, app }, keep) }
  })
  if (after === null) throw new CommandFailure(unknown(id))
  desk.print(`${id} ${outcomeOf(before, after)}\n`)
}

function outcomeOf(before: Job, { status, endedAtMs }: Job): string {
  if (before.endedAtMs !== null) return `is ${status}, which does not change any more`
  if (endedAtMs !== null) return `is ${status}`
  return 'is processing, and cancelled as soon as its worker can leave it'
}

async function retentionServed(desk: Desk, config: string | undefined, state: State): Promise<Retention> {
  try {
    const { limits } = await servedAt(desk, config, state)
    return retentionOf(limits)
  } catch (error) {
    if (!(error instanceof CatalogError)) throw error
    throw new CommandFailure('the configuration is not valid, see larkway check')
  }
}

function unknown(id: string): string {
  return `there is no job ${id}, or no more`
}
