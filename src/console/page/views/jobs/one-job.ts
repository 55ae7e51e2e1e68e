import { useState } from 'preact/hooks'
import type { TranscriptPart } from '../../../../contracts/calls.ts'
import type { JobAnswer, JobDetailAnswer } from '../../../server/answers/jobs.ts'
import type { WebhookAnswer } from '../../../server/answers/settings.ts'
import type { WorkspaceAnswer } from '../../../server/answers/workspaces.ts'
import { api } from '../../api.ts'
import { Attempts, Outcome } from '../../components/attempts.ts'
import { StatusBadge } from '../../components/badge.ts'
import { Button } from '../../components/button.ts'
import { Code, Copy } from '../../components/copy.ts'

import { Deliveries, type DeliveriesAnswer } from '../../components/deliveries.ts'
import { Confirm } from '../../components/dialog.ts'
import { Facts, PageHead, Section } from '../../components/page-head.ts'
import { Progress } from '../../components/progress.ts'
import { ErrorNote, Loaded, Note, Skeleton } from '../../components/states.ts'
import { Table } from '../../components/table.ts'
import { Time } from '../../components/time.ts'
import { toast } from '../../components/toasts.ts'
import { milliseconds, number, orNone, usd } from '../../format.ts'
import { h } from '../../h.ts'
import { type Load, useAction, useLoad } from '../../load.ts'
import { apiPath, pathOf, requestPath } from '../../paths.ts'
import { readTranscript, type TranscriptReply } from '../playground/reply.ts'

/** How often a job that has not ended is looked at. */
const LIVE_MS = 2_000

const QUEUED_ENDS = 'The job ends at once without a result, and its audio is deleted.'
const RUNNING_ENDS =
  'The worker aborts the provider request as soon as it sees this. Work done by then may be charged. ' +
  'There is no result unless the job finishes first.'

const NONE = 'Not started yet.'
const BEGUN = 'The first run is in progress. Runs are listed when they end.'
const GONE = 'No longer kept.'

export function OneJob(props: { readonly workspace: string; readonly id: string; readonly search: string }) {
  const { workspace, id, search } = props
  const root = apiPath`/workspaces/${workspace}/jobs/${id}`
  const [ended, setEnded] = useState(false)
  const load = useLoad(
    async (signal) => {
      const job = await api.get<JobDetailAnswer>(root, { signal })
      setEnded(hasEnded(job))
      return job
    },
    [root],
    { everyMs: ended ? 0 : LIVE_MS },
  )
  const job = load.value
  return [
    h(PageHead, {
      title: job ? `Job: ${job.endpoint}` : 'Job',
      parent: { href: pathOf(workspace, 'jobs') + search, label: 'Jobs' },
      badges: job ? h(StatusBadge, { status: job.status }) : null,
      actions: job ? h(Actions, { job, root, load }) : null,
      lead: h('span', { class: 'row' }, h('code', null, id), h(Copy, { text: id, label: 'Copy job ID' })),
    }),
    h(Loaded<JobDetailAnswer>, {
      load,
      what: 'The job',
      rows: 10,
      render: (one: JobDetailAnswer) => h(Detail, { workspace, job: one, root }),
    }),
  ]
}

function Actions(props: {
  readonly job: JobDetailAnswer
  readonly root: string
  readonly load: Load<JobDetailAnswer>
}) {
  const { job, root, load } = props
  const [dialog, setDialog] = useState(false)
  const retry = useAction(async () => {
    await api.post(`${root}/retry`)
    toast(`Job ${job.id} queued again`)
    load.reload()
  })
  const cancel = async () => {
    await api.post(`${root}/cancel`)
    toast(`Cancelling job ${job.id}`)
    load.reload()
  }
  return [
    job.can_retry
      ? h(Button, { kind: 'primary', icon: 'refresh', onClick: () => retry.run(), busy: retry.busy }, 'Retry')
      : null,
    canCancel(job)
      ? h(Button, { kind: 'danger', icon: 'stop', onClick: () => setDialog(true) }, 'Cancel job')
      : null,
    h(ErrorNote, { error: retry.error, what: 'Retrying' }),
    dialog
      ? h(
          Confirm,
          {
            title: `Cancel the job ${job.id}?`,
            action: 'Cancel job',
            onConfirm: cancel,
            onClose: () => setDialog(false),
          },
          h('p', null, job.status === 'queued' ? QUEUED_ENDS : RUNNING_ENDS),
        )
      : null,
  ]
}

function Detail(props: { readonly workspace: string; readonly job: JobDetailAnswer; readonly root: string }) {
  const { workspace, job, root } = props
  const { error } = job
  return h(
    'div',
    { class: 'stack stack-loose' },
    hasEnded(job)
      ? h('p', null, standing(job))
      : h(Progress, { label: standing(job), value: doneOf(job), max: job.parts?.total ?? 1 }),
    error === null
      ? null
      : h(Note, { tone: 'bad' }, h('p', null, h('span', { class: 'mono' }, error.code), ': ', error.message)),
    h(Section, { title: 'Facts' }, h(JobFacts, { workspace, job })),
    h(Section, { title: 'Result' }, h(JobResult, { workspace, job, root })),
    h(Section, { title: 'History' }, h(History, { job })),
    h(
      Section,
      { title: 'Runs', lead: job.runs.length > 0 ? 'Newest first, with the attempts of each.' : null },
      h(Runs, { job }),
    ),
    job.kind === 'transcription'
      ? h(Section, { title: 'Webhook' }, h(JobDelivery, { workspace, job }))
      : null,
  )
}

function JobFacts({ workspace, job }: { readonly workspace: string; readonly job: JobDetailAnswer }) {
  const time = (at: string | null) => h(Time, { at, exact: true })
  return h(Facts, {
    items: [
      ['Submitted', time(job.created_at)],
      ['Started', time(job.started_at)],
      ['Ended', time(job.completed_at)],
      ['Kept until', time(job.expires_at)],
      ['App', job.app],
      [
        'Key',
        job.key_name === null
          ? h('span', { class: 'mono' }, job.key_id)
          : h('span', { title: job.key_id }, job.key_name),
      ],
      ['Priority', job.mode],
      ['Attempts', number(job.attempts)],
      ['Route version', h('span', { class: 'mono' }, job.policy_version_id ?? '–')],
      [
        'Submitted by',
        h('a', { class: 'mono', href: requestPath(workspace, job.request_id) }, job.request_id),
      ],
    ],
  })
}

function History({ job }: { readonly job: JobDetailAnswer }) {
  return h(
    'ol',
    { class: 'job-steps' },
    jobSteps(job).map(({ at, status, text, milliseconds: length }, index) =>
      h(
        'li',
        { class: 'job-step', key: index },
        h(Time, { at, exact: true }),
        h(StatusBadge, { status }),
        h('span', null, text),
        h('span', { class: 'job-step-length' }, length === null ? '' : `for ${milliseconds(length)}`),
      ),
    ),
  )
}

function Runs({ job }: { readonly job: JobDetailAnswer }) {
  const { runs, attempts } = job
  if (runs.length === 0)
    return h('p', { class: 'quiet' }, hasEnded(job) ? GONE : attempts === 0 ? NONE : BEGUN)
  return h(
    'ul',
    null,
    runs.map((run, index) =>
      h(
        'li',
        { class: 'job-run', key: `${run.at} ${index}` },
        h(
          'div',
          { class: 'job-run-words' },
          h('h3', null, 'Run ', runs.length - index),
          h(Outcome, { request: run }),
          h('span', { class: 'quiet' }, milliseconds(run.milliseconds), ', ended ', h(Time, { at: run.at })),
        ),
        h(Attempts, { request: run }),
      ),
    ),
  )
}

/** One line of a job's history. */
interface JobStep {
  readonly at: string
  readonly status: string
  readonly text: string
  /** How long it stayed so; null: it still does, or for good. */
  readonly milliseconds: number | null
}

/** The history in words, oldest first. */
export function jobSteps({ history }: Pick<JobDetailAnswer, 'history'>): readonly JobStep[] {
  return history.map(({ at, status, claim }, index) => {
    const next = history[index + 1]
    return {
      at,
      status,
      text: stepInWords(status, claim),
      milliseconds: next === undefined ? null : Math.max(0, Date.parse(next.at) - Date.parse(at)),
    }
  })
}

function stepInWords(status: string, claim: number): string {
  switch (status) {
    case 'queued':
      return claim === 0 ? 'accepted' : `re-queued after run ${claim}`
    case 'processing':
      return `started, run ${claim}`
    default:
      return claim === 0 ? status : `${status} in run ${claim}`
  }
}

/** Delivery of the webhook that announces the end of the job. */
function JobDelivery({ workspace, job }: { readonly workspace: string; readonly job: JobDetailAnswer }) {
  const root = apiPath`/workspaces/${workspace}/webhook`
  const load = useLoad(
    async (signal) => {
      const [{ webhook }, { deliveries }] = await Promise.all([
        api.get<WebhookAnswer>(root, { signal }),
        api.get<DeliveriesAnswer>(`${root}/deliveries`, { signal }),
      ])
      return { webhook, deliveries: deliveries.filter(({ job_id }) => job_id === job.id) }
    },
    [root, job.id, job.status],
  )
  const settings = h('a', { href: `${pathOf(workspace, 'settings')}?section=webhook` }, 'settings')
  if (load.state === 'loading') return h(Skeleton, { rows: 1 })
  if (load.state === 'failed')
    return h('p', { class: 'quiet' }, 'The delivery status is unavailable: ', load.error.message, '.')
  const { webhook, deliveries } = load.value
  if (deliveries.length > 0) return h(Deliveries, { workspace, deliveries, onChanged: load.reload })
  if (webhook === null) return h('p', { class: 'quiet' }, 'No webhook is set. Set one in ', settings, '.')
  return h(
    'p',
    { class: 'quiet' },
    hasEnded(job)
      ? 'No pending or failed delivery for this job. See all in '
      : `When the job ends, ${webhook.url} is called. See `,
    settings,
    '.',
  )
}

/** The result of a job, which is only loaded on request, and only where the workspace allows it. */
function JobResult(props: {
  readonly workspace: string
  readonly job: JobDetailAnswer
  readonly root: string
}) {
  const { workspace, job, root } = props
  const [result, setResult] = useState<TranscriptReply | null>(null)
  const about = useLoad(
    (signal) => api.get<WorkspaceAnswer>(apiPath`/workspaces/${workspace}`, { signal }),
    [workspace],
  )
  const open = useAction(async () => {
    setResult(readTranscript(JSON.stringify(await api.get<unknown>(`${root}/result`)), () => null))
  })
  if (!job.has_result) return h('p', { class: 'quiet' }, whyNone(job))
  if (about.value?.content_shown === false) {
    return h(
      Note,
      null,
      'Transcripts of this workspace are hidden in the console. An admin can show them in ',
      h('a', { href: `${pathOf(workspace, 'settings')}?section=content` }, 'settings'),
      '. The app that submitted the job can read its result with GET /v1/transcription/jobs/',
      job.id,
      '.',
    )
  }
  if (result !== null) {
    return h(
      'div',
      { class: 'stack stack-tight' },
      h('p', { class: 'job-transcript' }, result.content),
      result.parts.length > 0 ? h(Parts, { parts: result.parts }) : null,
      h(Code, { title: 'Full result', text: result.raw, wrap: true, tall: true }),
      h(
        'div',
        { class: 'actions' },
        h(Button, { small: true, onClick: () => setResult(null) }, 'Hide result'),
      ),
    )
  }
  return h(
    'div',
    { class: 'stack stack-tight' },
    h(
      'div',
      { class: 'actions' },
      h(Button, { onClick: () => open.run(), busy: open.busy || about.state === 'loading' }, 'Show result'),
    ),
    h(ErrorNote, { error: open.error ?? about.error, what: 'The result' }),
  )
}

/** The parts that long audio was heard in. */
function Parts({ parts }: { readonly parts: readonly TranscriptPart[] }) {
  return h(Table<TranscriptPart>, {
    caption: 'Parts of the audio',
    rowKey: ({ start }) => String(start),
    rows: parts,
    columns: [
      { head: 'From', primary: true, cell: ({ start }) => clockTime(start) },
      { head: 'To', cell: ({ end }) => clockTime(end) },
      { head: 'Heard by', cell: ({ provider, model }) => `${provider} · ${model}` },
      { head: 'Attempts', align: 'end', cell: ({ attempts }) => number(attempts) },
      { head: 'Cost', align: 'end', cell: ({ cost_usd: cost }) => orNone(cost, usd) },
      { head: 'Cut', minor: true, cell: (part) => cutOf(part, part === parts.at(-1)) },
    ],
  })
}

function cutOf({ ends_in_silence: isQuiet }: TranscriptPart, isLast: boolean): string {
  if (isLast) return 'the end'
  return isQuiet ? 'in silence' : 'within sound'
}

/** Hours, minutes and seconds. */
function clockTime(seconds: number): string {
  return new Date(seconds * 1000).toISOString().slice(11, 19)
}

/** How far it is, of one or of its parts; null: it cannot be told. */
function doneOf({ status, parts }: JobAnswer): number | null {
  if (parts !== null) return parts.done
  return status === 'queued' ? 0 : null
}

function whyNone(job: JobDetailAnswer): string {
  if (job.kind === 'queue') return 'Queued requests keep no output: it is discarded after metering.'
  if (!hasEnded(job)) return 'No result yet.'
  return job.status === 'succeeded' ? 'The result was purged.' : 'No result: the job didn’t succeed.'
}

export function hasEnded({ status }: Pick<JobAnswer, 'status'>): boolean {
  return status === 'succeeded' || status === 'failed' || status === 'cancelled'
}

/** Ending it can still be asked for. */
export function canCancel(job: Pick<JobAnswer, 'status' | 'cancel_requested'>): boolean {
  return !hasEnded(job) && !job.cancel_requested
}

/** The state of a job, in one line. */
export function standing(job: JobAnswer): string {
  const { status, attempts, parts, cancel_requested: cancelling } = job
  const times = attempts === 1 ? '1 attempt' : `${attempts} attempts`
  if (cancelling && !hasEnded(job)) return 'Cancelling. The job ends as soon as its worker sees this.'
  if (status === 'queued') {
    return attempts === 0 ? 'Waiting for a worker.' : `Re-queued after ${times}.`
  }
  if (status === 'processing' && parts !== null)
    return `Processing, attempt ${attempts}: ${parts.done} of ${parts.total} parts are heard.`
  if (status === 'processing') return `Processing, attempt ${attempts}.`
  if (status === 'failed' && job.can_retry) return `Failed after ${times}. You can retry it.`
  if (status === 'failed') return `Failed after ${times}. Resubmit to retry.`
  return status === 'succeeded' ? `Done after ${times}.` : 'Cancelled.'
}
