import { jobPartition } from '../ids.ts'
import { noteChange } from '../routes/audit-note.ts'
import { jobRedelivery } from '../routes/job-notes.ts'
import { CommandFailure, parse, UsageError } from './arguments.ts'
import { commandActor, type Desk, environmentOf } from './desk.ts'
import { withState } from './state.ts'
import { listWebhooks } from './webhooks-list.ts'
import { testWebhook } from './webhooks-test.ts'

const USAGE = `larkway webhooks <action>

  list [--workspace W] [--limit N] [--json]
                       announcements that wait for their next attempt, or were given up in the last 7 days; newest
                       first, at most N (default 50)
  redeliver JOB        announce the end of a transcription job again, as long as its record is kept; receivers see the
                       same id
  test --workspace W   send an event of the type webhook.test to the workspace's webhook, signed as any other; the exit
                       code is 1 when it is not answered with 2xx

The state is that of the servers with the same REDIS_URL, else the file in LARKWAY_DATA; they may run meanwhile. The
test is signed with what LARKWAY_SECRET_KEYS opens, else the key in LARKWAY_DATA.
`

/**
 * `larkway webhooks`: the announcements of jobs that have ended.
 *
 * @returns the exit code
 * @throws UsageError, CommandFailure
 */
export async function webhooks(args: readonly string[], desk: Desk): Promise<number> {
  const [action, ...rest] = args
  if (args.includes('--help')) desk.print(USAGE)
  else if (action === 'list') await listWebhooks(rest, desk)
  else if (action === 'redeliver') await redeliver(rest, desk)
  else if (action === 'test') return testWebhook(rest, desk)
  else throw new UsageError('webhooks takes list, redeliver or test')
  return 0
}

async function redeliver(args: readonly string[], desk: Desk): Promise<void> {
  const [id] = parse(args, {}, 1).positionals
  if (id === undefined || !id.startsWith('tj_') || jobPartition(id) === null)
    throw new UsageError('webhooks redeliver takes the id of a transcription job, tj_…')
  const found = await withState(environmentOf(desk), async ({ catalog, jobs, outbox }) => {
    const job = await jobs.get(id)
    if (job === null || job.endedAtMs === null) return false
    await noteChange(catalog, jobRedelivery(job, commandActor('webhooks redeliver')))
    return outbox.redeliver(id)
  })
  if (!found)
    throw new CommandFailure(
      `there is nothing to announce of "${id}": it has not ended, or is not known any more`,
    )
  desk.print(`the end of ${id} is announced again within seconds\n`)
}
