import { JOB_STATUSES, type Job, type JobFilter, type JobKind } from '../schema/jobs.ts'
import { oneOf, parse, UsageError, whole } from './arguments.ts'
import { type Desk, environmentOf } from './desk.ts'
import { withState } from './state.ts'
import { table } from './table.ts'

const KINDS: readonly JobKind[] = ['transcription', 'queue']
const LIMIT_DEFAULT = 50
const LIMIT_MAX = 10_000

const FLAGS = {
  workspace: { type: 'string' },
  kind: { type: 'string' },
  status: { type: 'string' },
  dead: { type: 'boolean' },
  limit: { type: 'string' },
  json: { type: 'boolean' },
} as const

/**
 * `larkway jobs list`: jobs, newest first.
 *
 * @throws UsageError, CommandFailure
 */
export async function listJobs(args: readonly string[], desk: Desk): Promise<void> {
  const { workspace = null, kind, status, dead = false, limit, json } = parse(args, FLAGS, 0).values
  if (dead && (kind !== undefined || status !== undefined))
    throw new UsageError('--dead is --kind queue --status failed; give one or the other')
  const filter: JobFilter = {
    workspace,
    kind: dead ? 'queue' : kind === undefined ? null : oneOf('kind', kind, KINDS),
    status: dead ? 'failed' : status === undefined ? null : oneOf('status', status, JOB_STATUSES),
    limit: whole('limit', limit, LIMIT_MAX) ?? LIMIT_DEFAULT,
  }
  const found = await withState(environmentOf(desk), (state) => state.jobs.list(filter))
  desk.print(json === true ? `${JSON.stringify(found.map(inJson), null, 2)}\n` : rendered(found))
}

function rendered(found: readonly Job[]): string {
  const cells = found.map((job) => [
    job.id,
    job.workspace,
    job.app,
    job.endpoint,
    job.mode,
    job.status,
    timeOf(job.createdAtMs) ?? '-',
    timeOf(job.endedAtMs) ?? '-',
    String(job.fence),
    job.error?.code ?? '-',
  ])
  const head = ['JOB', 'WORKSPACE', 'APP', 'ENDPOINT', 'MODE', 'STATUS', 'CREATED', 'ENDED', 'CLAIMS']
  return table([[...head, 'ERROR'], ...cells])
}

function inJson(job: Job) {
  const { id, kind, workspace, app, endpoint, mode, status } = job
  return {
    id,
    kind,
    workspace,
    app,
    endpoint,
    mode,
    status,
    created_at: timeOf(job.createdAtMs),
    started_at: timeOf(job.startedAtMs),
    ended_at: timeOf(job.endedAtMs),
    claims: job.fence,
    error: job.error?.code ?? null,
  }
}

function timeOf(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString()
}
