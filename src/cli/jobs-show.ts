import { jobPartition } from '../ids.ts'
import type { Job, JobError, KeptText } from '../schema/jobs.ts'
import { CommandFailure, parse, UsageError } from './arguments.ts'
import { type Desk, environmentOf } from './desk.ts'
import { withState } from './state.ts'
import { table } from './table.ts'

/**
 * `larkway jobs show ID`: what is known of a job. Of what it was given and has brought about no more than the size.
 *
 * @throws UsageError, CommandFailure for a job that is not there
 */
export async function showJob(args: readonly string[], desk: Desk): Promise<void> {
  const { values, positionals } = parse(args, { json: { type: 'boolean' } }, 1)
  const id = jobIdOf('show', positionals)
  const job = await withState(environmentOf(desk), (state) => state.jobs.get(id))
  if (job === null) throw new CommandFailure(`there is no job ${id}, or no more`)
  desk.print(values.json === true ? `${JSON.stringify(inJson(job), null, 2)}\n` : rendered(job))
}

/** @throws UsageError for what is no id of a job */
export function jobIdOf(action: string, [id]: readonly string[]): string {
  if (id === undefined) throw new UsageError(`jobs ${action} takes the id of a job; see larkway jobs list`)
  if (jobPartition(id) === null) throw new UsageError(`"${id}" is no id of a job; see larkway jobs list`)
  return id
}

function rendered(job: Job): string {
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
    ['input', inputOf(job)],
    ['status', `${job.status}${job.cancelRequested ? ', cancellation requested' : ''}`],
    ['created', timeOf(job.createdAtMs)],
    ['started', timeOf(job.startedAtMs)],
    ['ended', timeOf(job.endedAtMs)],
    ['purged', timeOf(job.expiresAtMs)],
    [
      'claims',
      `${job.fence} (${job.strays} lost in a row, ${job.retries} retried, ${job.returns} given back)`,
    ],
    ['result', job.result === null ? null : `${bytesOf(job.result)} bytes`],
    ['route', facts === null ? null : facts.policy_version_id],
    ['applied purpose', facts === null ? null : facts.lk_applied_purpose],
    ['error', error === null ? null : `${error.code}: ${error.message}`],
    ['error field', error === null ? null : error.param],
    ['error details', error === null ? null : detailsOf(error)],
    ...job.history.map(({ atMs, status, fence }, index): [string, string] => [
      index === 0 ? 'history' : '',
      `${timeOf(atMs)}  ${status}${fence === 0 ? '' : `, claim ${fence}`}`,
    ]),
  ]
  const known = rows.filter((row): row is [string, string] => row[1] !== null)
  return table([[job.id, ''], ...known])
}

function detailsOf({ details }: JobError): string | null {
  return Object.keys(details).length === 0 ? null : JSON.stringify(details)
}

function inputOf({ work }: Job): string {
  if (!('audio' in work)) return `${work.operation}, ${bytesOf(work.payload)} bytes`
  const { operation, audio } = work
  // The rest of a URL may be what opens it.
  if ('url' in audio) return `${operation}, audio at ${URL.parse(audio.url)?.hostname ?? 'a URL'}`
  const seconds = audio.durationSeconds === null ? 'unknown length' : `${audio.durationSeconds} s`
  return `${operation}, ${audio.format} of ${seconds}, ${audio.decodedBytes} bytes`
}

function bytesOf(kept: KeptText): number {
  return 'text' in kept ? Buffer.byteLength(kept.text) : kept.bytes
}

function inJson(job: Job) {
  const { id, kind, endpoint, mode, workspace, app, status, fence, strays, retries, returns } = job
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
    input: inputOf(job),
    status,
    cancel_requested: job.cancelRequested,
    created_at: timeOf(job.createdAtMs),
    started_at: timeOf(job.startedAtMs),
    ended_at: timeOf(job.endedAtMs),
    expires_at: timeOf(job.expiresAtMs),
    claims: fence,
    strays,
    retries,
    returns,
    result_bytes: job.result === null ? null : bytesOf(job.result),
    facts: job.facts,
    error: job.error,
    history: job.history.map((change) => ({
      at: timeOf(change.atMs),
      status: change.status,
      claim: change.fence,
    })),
  }
}

function timeOf(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString()
}
