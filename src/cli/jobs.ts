import { jobPartition } from '../contracts/ids.ts'
import { JOB_STATUSES, type Job, type JobError, type JobFilter, type JobKind } from '../contracts/jobs.ts'
import type { KeptText } from '../contracts/objects.ts'
import { cancelForApp, jobOf, retryJob } from '../gateway/admin/jobs.ts'
import { CatalogError } from '../gateway/catalog/watch.ts'
import { CommandFailure, json, oneOf, parse, rfc3339, table, UsageError, whole } from './arguments.ts'
import {
  actions,
  type CliContext,
  CONFIG_HELP,
  EXIT_HELP,
  environmentOf,
  STATE_HELP,
  withAdmin,
  withState,
} from './context.ts'

const USAGE = `larkway jobs <action>

Transcription jobs, and jobs of the queue with its dead list.

  list [options]       list jobs, newest first
    --workspace W      jobs of one workspace
    --kind K           transcription or queue
    --status S         ${JOB_STATUSES.join(', ')}
    --dead             failed jobs of the queue, which are kept for a week
    --limit N          default: 50
    --json
  show ID [--json]     show a job and its history, but neither its input nor its result
  retry ID             queue a dead job again, with all its tries
  cancel ID [--config FILE]
                       cancel a queued job and remove its audio, or request it for one that is processing; the
                       configuration says how long the job is kept

  ${CONFIG_HELP}

${STATE_HELP} Audio is removed from the store that the environment names.

${EXIT_HELP}
`

/** `larkway jobs`: transcription jobs and jobs of the queue. @throws UsageError, CommandFailure */
export const jobs = actions('jobs', USAGE, { list, show: showJob, retry, cancel })

/** Queues a failed job of the queue again. */
async function retry(args: readonly string[], context: CliContext): Promise<void> {
  const id = jobId('retry', parse(args, {}, 1).positionals)
  const { status } = await withAdmin(context, { command: 'jobs retry' }, ({ actor, admin }) =>
    retryJob(actor, { id, workspace: null }, admin),
  )
  context.print(`${id} is ${status === 'queued' ? 'queued again' : status}\n`)
}

/** Cancels a job as if its owner had. */
async function cancel(args: readonly string[], context: CliContext): Promise<void> {
  const { values, positionals } = parse(args, { config: { type: 'string' } }, 1)
  const id = jobId('cancel', positionals)
  const options = { command: 'jobs cancel', config: values.config }
  const { before, after } = await withAdmin(context, options, ({ actor, admin }) =>
    cancelForApp(actor, { id, workspace: null }, admin),
  ).catch((error: unknown) => {
    if (!(error instanceof CatalogError)) throw error
    throw new CommandFailure('the configuration is not valid: see larkway check')
  })
  context.print(`${id} ${cancelOutcome(before, after)}\n`)
}

function cancelOutcome(before: Job, { status, endedAtMs }: Job): string {
  if (before.endedAtMs !== null) return `has already ended as ${status}`
  if (endedAtMs !== null) return `is ${status}`
  return 'is processing, and is cancelled as soon as its worker can stop'
}

/** @throws UsageError unless the argument is the id of a job */
function jobId(action: string, [id]: readonly string[]): string {
  if (id === undefined) throw new UsageError(`jobs ${action} takes the id of a job; see larkway jobs list`)
  if (jobPartition(id) === null) throw new UsageError(`"${id}" is not the id of a job; see larkway jobs list`)
  return id
}

const KINDS: readonly JobKind[] = ['transcription', 'queue']
const LIMIT_DEFAULT = 50
const LIMIT_MAX = 10_000

const text = { type: 'string' } as const
const flag = { type: 'boolean' } as const
const LIST_FLAGS = { workspace: text, kind: text, status: text, dead: flag, limit: text, json: flag } as const

async function list(args: readonly string[], context: CliContext): Promise<void> {
  const { values } = parse(args, LIST_FLAGS, 0)
  const { workspace = null, kind, status, dead = false, limit } = values
  if (dead && (kind !== undefined || status !== undefined))
    throw new UsageError('--dead is --kind queue --status failed; give one or the other')
  const filter: JobFilter = {
    workspace,
    kind: dead ? 'queue' : kind === undefined ? null : oneOf('kind', kind, KINDS),
    status: dead ? 'failed' : status === undefined ? null : oneOf('status', status, JOB_STATUSES),
    limit: whole('limit', limit, LIMIT_MAX) ?? LIMIT_DEFAULT,
  }
  const found = await withState(environmentOf(context), (state) => state.jobs.list(filter))
  context.print(values.json === true ? json(found.map(jsonSummary)) : summaryTable(found))
}

function summaryTable(found: readonly Job[]): string {
  const cells = found.map((job) => [
    job.id,
    job.workspace,
    job.app,
    job.endpoint,
    job.mode,
    job.status,
    rfc3339(job.createdAtMs),
    rfc3339(job.endedAtMs) ?? '-',
    String(job.fence),
    job.error?.code ?? '-',
  ])
  const head = ['JOB', 'WORKSPACE', 'APP', 'ENDPOINT', 'MODE', 'STATUS', 'CREATED', 'ENDED', 'CLAIMS']
  return table([[...head, 'ERROR'], ...cells])
}

function jsonSummary(job: Job) {
  const { id, kind, workspace, app, endpoint, mode, status } = job
  return {
    id,
    kind,
    workspace,
    app,
    endpoint,
    mode,
    status,
    created_at: rfc3339(job.createdAtMs),
    started_at: rfc3339(job.startedAtMs),
    ended_at: rfc3339(job.endedAtMs),
    claims: job.fence,
    error: job.error?.code ?? null,
  }
}

/** Shows a job. Of its input and its result only the size is shown. */
async function showJob(args: readonly string[], context: CliContext): Promise<void> {
  const { values, positionals } = parse(args, { json: flag }, 1)
  const id = jobId('show', positionals)
  const job = await withAdmin(context, { command: 'jobs show' }, ({ actor, admin }) =>
    jobOf(actor, { id, workspace: null }, admin),
  )
  context.print(values.json === true ? json(jsonJob(job)) : jobTable(job))
}

function jobTable(job: Job): string {
  const { selectors, error, facts } = job
  const { purpose, responseProfile } = selectors
  const rows: [string, string | null][] = [
    ['kind', job.kind],
    ['endpoint', job.endpoint],
    ['mode', job.mode],
    ['workspace', `${job.workspace}, app ${job.app}, key ${job.keyId}`],
    ['request', job.requestId],
    ['purpose', purpose === null ? null : `${purpose.label} (${purpose.source})`],
    ['profile', responseProfile],
    ['input', inputText(job)],
    ['status', `${job.status}${job.cancelRequested ? ', cancellation requested' : ''}`],
    ['created', rfc3339(job.createdAtMs)],
    ['started', rfc3339(job.startedAtMs)],
    ['ended', rfc3339(job.endedAtMs)],
    ['purged', rfc3339(job.expiresAtMs)],
    [
      'claims',
      `${job.fence} (${job.stalled} lost in a row, ${job.retries} retried, ${job.returns} given back)`,
    ],
    ['result', job.result === null ? null : `${textBytes(job.result)} bytes`],
    ['route', facts === null ? null : facts.policy_version_id],
    ['applied purpose', facts === null ? null : facts.lk_applied_purpose],
    ['error', error === null ? null : `${error.code}: ${error.message}`],
    ['error field', error === null ? null : error.param],
    ['error details', error === null ? null : detailsText(error)],
    ...job.history.map(({ atMs, status, fence }, index): [string, string] => [
      index === 0 ? 'history' : '',
      `${rfc3339(atMs)}  ${status}${fence === 0 ? '' : `, claim ${fence}`}`,
    ]),
  ]
  const known = rows.filter((row): row is [string, string] => row[1] !== null)
  return table([[job.id, ''], ...known])
}

function detailsText({ details }: JobError): string | null {
  return Object.keys(details).length === 0 ? null : JSON.stringify(details)
}

function inputText({ work }: Job): string {
  if (!('audio' in work)) return `${work.operation}, ${textBytes(work.payload)} bytes`
  const { operation, audio } = work
  // The rest of a URL may be a secret.
  if ('url' in audio) return `${operation}, audio at ${URL.parse(audio.url)?.hostname ?? 'a URL'}`
  const seconds = audio.durationSeconds === null ? 'unknown length' : `${audio.durationSeconds} s`
  return `${operation}, ${audio.format} of ${seconds}, ${audio.decodedBytes} bytes`
}

function textBytes(kept: KeptText): number {
  return 'text' in kept ? Buffer.byteLength(kept.text) : kept.bytes
}

function jsonJob(job: Job) {
  const { id, kind, endpoint, mode, workspace, app, status, fence, stalled, retries, returns } = job
  const { purpose, responseProfile } = job.selectors
  return {
    id,
    kind,
    endpoint,
    mode,
    workspace,
    app,
    key_id: job.keyId,
    request_id: job.requestId,
    purpose: purpose?.label ?? null,
    response_profile: responseProfile,
    input: inputText(job),
    status,
    cancel_requested: job.cancelRequested,
    created_at: rfc3339(job.createdAtMs),
    started_at: rfc3339(job.startedAtMs),
    ended_at: rfc3339(job.endedAtMs),
    expires_at: rfc3339(job.expiresAtMs),
    claims: fence,
    stalled,
    retries,
    returns,
    result_bytes: job.result === null ? null : textBytes(job.result),
    facts: job.facts,
    error: job.error,
    history: job.history.map((change) => ({
      at: rfc3339(change.atMs),
      status: change.status,
      claim: change.fence,
    })),
  }
}
