import { JOB_STATUSES } from '../schema/jobs.ts'
import { UsageError } from './arguments.ts'
import type { Desk } from './desk.ts'
import { cancelJob, retryJob } from './jobs-change.ts'
import { listJobs } from './jobs-list.ts'
import { showJob } from './jobs-show.ts'

const USAGE = `larkway jobs <action>

  list [options]       jobs, newest first
    --workspace W      of one workspace
    --kind K           transcription or queue
    --status S         ${JOB_STATUSES.join(', ')}
    --dead             jobs of the queue that failed, and are kept for a week
    --limit N          default: 50
    --json
  show ID [--json]     what is known of a job, and its history; never what it was given or has brought about
  retry ID             queue a dead job again, with all its tries
  cancel ID [--config FILE]
                       cancel a job that is queued; ask for it when it is processing. The configuration (default:
                       LARKWAY_CONFIG, else larkway.yaml when it exists, else the demo) says how long it is kept

The state is that of the servers with the same REDIS_URL, else the file in LARKWAY_DATA; they may run meanwhile.
`

/**
 * `larkway jobs`: transcription jobs and those of the queue.
 *
 * @returns the exit code
 * @throws UsageError, CommandFailure
 */
export async function jobs(args: readonly string[], desk: Desk): Promise<number> {
  const [action, ...rest] = args
  if (args.includes('--help')) desk.print(USAGE)
  else if (action === 'list') await listJobs(rest, desk)
  else if (action === 'show') await showJob(rest, desk)
  else if (action === 'retry') await retryJob(rest, desk)
  else if (action === 'cancel') await cancelJob(rest, desk)
  else throw new UsageError('jobs takes list, show, retry or cancel')
  return 0
}
