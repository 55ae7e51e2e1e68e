import type {
  Claimed,
  Job,
  JobEnding,
  JobError,
  JobFacts,
  JobFilter,
  JobOwner,
  JobPageFilter,
  JobProgress,
  JobSpec,
  JobStatus,
  JobSubmission,
} from '../../../src/contracts/jobs.ts'
import type { KeptText } from '../../../src/contracts/objects.ts'
import { POISON, storyOf } from '../../support/jobs-under-test.ts'

/** A time that is over at the next step, or never. */
export type Time = 'over' | 'long'

const NO_PROGRESS: JobProgress = { audio: null, upstream: null }

interface ModelJob {
  submission: JobSubmission
  status: JobStatus
  readonly history: string[]
  fence: number
  stalled: number
  retries: number
  returns: number
  started: boolean
  cancelRequested: boolean
  /** The specification that is left of it, or will be with its end; null: nothing is erased. */
  erased: JobSpec | null
  result: KeptText | null
  error: JobError | null
  facts: JobFacts | null
  progress: JobProgress
  /** Where it stands in line. */
  place: number
  /** Of a job that is queued; null: it is ready. */
  delay: Time | null
  lease: Time
  /** Of a job that has ended. */
  expiry: Time
  marked: boolean
  /** The last ending that was asked for, with the fence, until the next claim. */
  ending: string
}

/** What a job shows, its moments left out. */
export function viewOf(job: Job | null): object | null {
  if (job === null) return null
  const { history: _, createdAtMs: __, startedAtMs, endedAtMs, expiresAtMs, ...rest } = job
  return {
    ...rest,
    story: storyOf(job),
    started: startedAtMs !== null,
    ended: endedAtMs !== null,
    expires: expiresAtMs !== null,
  }
}

/** Its time is over, whether or not somebody has come to purge it. */
function isGone({ status, expiry, marked }: ModelJob): boolean {
  return marked || (isTerminal(status) && expiry === 'over')
}

/** Jobs and their announcements as they should be, by their plain rules. Every method looks at all jobs there are. */
export class JobsModel {
  /** In the order of their submission. */
  readonly #jobs = new Map<string, ModelJob>()
  /** What slots hold, by workspace and id. */
  readonly #slots = new Map<
    string,
    { readonly id: string; readonly fingerprint: string; readonly keep: Time }
  >()
  readonly #announced = new Map<string, JobStatus>()
  #places = 0

  submit(submission: JobSubmission, keep: Time): object {
    const { spec, slot } = submission
    const slotKey = `${spec.workspace} ${slot?.id}`
    const held = slot === null ? undefined : this.#slots.get(slotKey)
    if (held && held.fingerprint !== slot?.fingerprint) return { state: 'reused' }
    const id = held?.id ?? spec.id
    if (!this.#jobs.has(id) && !held) {
      this.#jobs.set(id, {
        ...{
          submission,
          status: 'queued',
          history: ['queued 0'],
          fence: 0,
          stalled: 0,
          retries: 0,
          returns: 0,
        },
        ...{ started: false, cancelRequested: false, erased: null, result: null, error: null, facts: null },
        ...{ progress: NO_PROGRESS, place: ++this.#places, delay: null, lease: 'long', expiry: 'long' },
        ...{ marked: false, ending: '' },
      })
      if (slot) this.#slots.set(slotKey, { id, fingerprint: slot.fingerprint, keep })
    }
    return { state: 'accepted', replayed: id !== spec.id, id, job: this.view(id) }
  }

  view(id: string): object | null {
    const job = this.#jobs.get(id)
    return job && !isGone(job) ? this.#shown(job) : null
  }

  #shown(job: ModelJob): object {
    const { status, fence, stalled, retries, returns, started, cancelRequested, result, error, facts } = job
    const ended = isTerminal(status)
    return {
      ...job.submission.spec,
      ...{ status, fence, stalled, retries, returns, cancelRequested, result, error, facts },
      erased: job.erased !== null,
      ...{ story: job.history.slice(-64), started, ended, expires: ended },
    }
  }

  cancel(id: string, owner: JobOwner, keep: Time): object | null {
    const job = this.#jobs.get(id)
    const { workspace, app } = job?.submission.spec ?? {}
    if (!job || workspace !== owner.workspace || app !== owner.app || isGone(job)) return null
    if (job.status === 'queued') this.#finish(job, 'cancelled', keep)
    else if (job.status === 'processing') job.cancelRequested = true
    return this.#shown(job)
  }

  erase(spec: JobSpec, keep: Time): object | null {
    const job = this.#jobs.get(spec.id)
    const { workspace, app, kind } = job?.submission.spec ?? {}
    const isOwn = workspace === spec.workspace && app === spec.app && kind === 'transcription'
    if (!job || !isOwn || isGone(job)) return null
    const { status } = job
    if (status === 'queued' || status === 'processing' || job.erased === null) job.erased = spec
    if (status === 'queued') this.#finish(job, 'cancelled', keep)
    else if (status === 'processing') job.cancelRequested = true
    else this.#leave(job)
    return this.#shown(job)
  }

  /** Nothing but what is left of an erased job. */
  #leave(job: ModelJob): void {
    if (job.erased === null) return
    job.submission = { ...job.submission, spec: job.erased }
    job.result = null
  }

  /** Ids of an app's jobs, the newest first. */
  page({ owner, statuses, after, before, from, limit }: JobPageFilter): string[] {
    const fits = ({ submission: { spec }, ...job }: ModelJob) =>
      spec.workspace === owner.workspace &&
      spec.app === owner.app &&
      spec.kind === 'transcription' &&
      (statuses === null || statuses.includes(job.status)) &&
      (after === null || spec.id > after) &&
      (before === null || spec.id < before)
    const ids = this.#all()
      .filter((job) => !isGone(job) && fits(job))
      .map(({ submission }) => submission.spec.id)
      .sort()
    return (from === 'oldest' ? ids : ids.reverse()).slice(0, limit)
  }

  /**
   * What is wrong with a claim that took these jobs; null: nothing, and the model has taken them, too. Which workspace
   * or mode is served first is left open.
   */
  claim(
    claimed: readonly Claimed[],
    {
      limit,
      perWorkspace,
      stalledMax,
      lease,
    }: { limit: number; perWorkspace: number; stalledMax: number; lease: Time },
  ): string | null {
    this.#sweep(stalledMax)
    const ready = this.#all().filter(({ status, delay }) => status === 'queued' && delay === null)
    ready.sort((a, b) => a.place - b.place)
    let most = 0
    for (const workspace of new Set(ready.map(workspaceOf))) {
      const running = this.#all().filter(
        (job) => job.status === 'processing' && workspaceOf(job) === workspace,
      )
      const waits = ready.filter((job) => workspaceOf(job) === workspace).length
      const places = Math.max(0, perWorkspace - running.length)
      most += Math.min(places, waits)
      if (claimed.filter(({ job }) => job.workspace === workspace).length > places)
        return `more than ${places} jobs of ${workspace}`
    }
    if (claimed.length !== Math.min(limit, most)) return `not ${Math.min(limit, most)} jobs`
    for (const { job, progress } of claimed) {
      const line = ready.filter(
        ({ submission: { spec } }) => spec.workspace === job.workspace && spec.mode === job.mode,
      )
      const next = line[0]
      if (next?.submission.spec.id !== job.id) return `${job.id} before ${next?.submission.spec.id}`
      ready.splice(ready.indexOf(next), 1)
      this.#take(next, lease)
      if (JSON.stringify(progress) !== JSON.stringify(next.progress)) return `another progress of ${job.id}`
    }
    return null
  }

  renew(id: string, fence: number, lease: Time, progress: JobProgress | null): object {
    const job = this.#held(id, fence)
    if (!job) return { held: false, cancelRequested: false }
    job.lease = lease
    job.progress = progress ?? job.progress
    return { held: true, cancelRequested: job.cancelRequested }
  }

  end(
    id: string,
    fence: number,
    ending: JobEnding,
    { keep, delay }: { keep: Time; delay: Time | null },
  ): object | null {
    const mark = `${ending.state} ${fence}`
    if (this.#jobs.get(id)?.ending === mark) return this.view(id)
    const job = this.#held(id, fence)
    if (!job) return null
    job.ending = mark
    if (ending.state === 'succeeded' && job.cancelRequested) {
      job.facts = ending.facts
      this.#finish(job, 'cancelled', keep)
    } else if (ending.state !== 'queued') {
      job.facts = ending.facts
      if (ending.state === 'succeeded') job.result = ending.result
      if (ending.state === 'failed') job.error = ending.error
      this.#finish(job, ending.state, keep)
    } else if (job.cancelRequested) {
      this.#finish(job, 'cancelled', keep)
    } else {
      job.stalled = 0
      if (ending.counts === 'retry') job.retries += 1
      if (ending.counts === 'return') job.returns += 1
      job.delay = delay
      // Behind those that wait already; a job that is given back keeps its place.
      if (delay !== null) job.place = ++this.#places
      this.#change(job, 'queued')
    }
    return this.#shown(job)
  }

  /** Ids of those that are marked by it, the one that ended first before the others. */
  takeExpired(limit: number): string[] {
    const over = this.#all().filter(
      ({ status, expiry, marked }) => isTerminal(status) && expiry === 'over' && !marked,
    )
    const marked = over.sort((a, b) => a.place - b.place).slice(0, limit)
    for (const job of marked) job.marked = true
    return marked.map(({ submission }) => submission.spec.id)
  }

  forget(id: string): void {
    const job = this.#jobs.get(id)
    if (!job?.marked) return
    this.#jobs.delete(id)
    for (const [slot, held] of this.#slots)
      if (held.id === id && held.keep === 'over') this.#slots.delete(slot)
  }

  retry(id: string): boolean {
    const job = this.#jobs.get(id)
    if (!job || isGone(job) || job.status !== 'failed' || job.submission.spec.kind !== 'queue') return false
    Object.assign(job, {
      stalled: 0,
      retries: 0,
      returns: 0,
      cancelRequested: false,
      error: null,
      facts: null,
    })
    Object.assign(job, { delay: null, ending: '', place: ++this.#places })
    this.#change(job, 'queued')
    return true
  }

  isKnown(id: string): boolean {
    return this.#jobs.has(id)
  }

  matching({ workspace, kind, status }: JobFilter): string[] {
    const fits = ({ submission: { spec }, ...job }: ModelJob) =>
      (workspace === null || workspace === spec.workspace) &&
      (kind === null || kind === spec.kind) &&
      (status === null || status === job.status)
    return this.#all()
      .filter((job) => !isGone(job) && fits(job))
      .map(({ submission }) => submission.spec.id)
  }

  waiting(): number {
    return this.#all().filter(({ status }) => status === 'queued').length
  }

  announced(): object[] {
    return [...this.#announced].map(([jobId, status]) => ({ jobId, status }))
  }

  #all(): ModelJob[] {
    return [...this.#jobs.values()]
  }

  #held(id: string, fence: number): ModelJob | null {
    const job = this.#jobs.get(id)
    return job?.status === 'processing' && job.fence === fence ? job : null
  }

  #sweep(stalledMax: number): void {
    for (const job of this.#all()) {
      if (job.status !== 'processing' || job.lease === 'long') continue
      job.stalled += 1
      if (job.cancelRequested) this.#finish(job, 'cancelled', 'long')
      else if (job.stalled < stalledMax) this.#change(job, 'queued')
      else {
        job.error = POISON
        this.#finish(job, 'failed', 'long')
      }
    }
    const due = this.#all().filter(({ status, delay }) => status === 'queued' && delay === 'over')
    for (const job of due.sort((a, b) => a.place - b.place)) {
      job.delay = null
      job.place = ++this.#places
    }
  }

  #take(job: ModelJob, lease: Time): void {
    job.fence += 1
    job.started = true
    job.lease = lease
    job.ending = ''
    this.#change(job, 'processing')
  }

  #finish(job: ModelJob, status: JobStatus, keep: Time): void {
    // Its place in the line to the purge from here on.
    job.place = ++this.#places
    job.expiry = keep
    job.delay = null
    job.progress = NO_PROGRESS
    this.#change(job, status)
    this.#leave(job)
    if (job.submission.spec.kind === 'transcription') this.#announced.set(job.submission.spec.id, status)
  }

  #change(job: ModelJob, status: JobStatus): void {
    job.status = status
    job.history.push(`${status} ${job.fence}`)
  }
}

const workspaceOf = ({ submission }: ModelJob) => submission.spec.workspace
const isTerminal = (status: JobStatus) => status !== 'queued' && status !== 'processing'
