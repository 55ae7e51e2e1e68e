import { useState } from 'preact/hooks'
import type { JobDetailAnswer } from '../../../api/answers.ts'
import { api } from '../../api.ts'
import { milliseconds, number } from '../../format.ts'
import { html } from '../../html.ts'
import { type Load, useAction, useLoad } from '../../load.ts'
import { StatusBadge } from '../../parts/badge.ts'
import { Button } from '../../parts/button.ts'
import { Copy } from '../../parts/copy.ts'
import { Confirm } from '../../parts/dialog.ts'
import { Facts, PageHead, Section } from '../../parts/page-head.ts'
import { Progress } from '../../parts/progress.ts'
import { Fault, Loaded, Note } from '../../parts/states.ts'
import { Time } from '../../parts/time.ts'
import { toast } from '../../parts/toasts.ts'
import { apiPath, pathOf, requestPath } from '../../paths.ts'
import { Attempts } from '../requests/attempts.ts'
import { Outcome } from '../requests/outcome.ts'
import { JobDelivery } from './job-delivery.ts'
import { canCancel, hasEnded, standing } from './job-list.ts'
import { JobResult } from './job-result.ts'
import { jobSteps } from './job-steps.ts'

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
  return html`<${PageHead}
      title=${job ? `Job: ${job.endpoint}` : 'Job'}
      parent=${{ href: pathOf(workspace, 'jobs') + search, label: 'Jobs' }}
      badges=${job ? html`<${StatusBadge} status=${job.status} />` : null}
      actions=${job ? html`<${Actions} job=${job} root=${root} load=${load} />` : null}
      lead=${html`<span class="row"><code>${id}</code><${Copy} text=${id} label="Copy job ID" /></span>`}
    />
    <${Loaded}
      load=${load}
      what="The job"
      rows=${10}
      render=${(one: JobDetailAnswer) => html`<${Detail} workspace=${workspace} job=${one} root=${root} />`}
    />`
}

function Actions(props: {
  readonly job: JobDetailAnswer
  readonly root: string
  readonly load: Load<JobDetailAnswer>
}) {
  const { job, root, load } = props
  const [asking, setAsking] = useState(false)
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
  return html`${
    job.can_retry
      ? html`<${Button} kind="primary" icon="refresh" onClick=${() => retry.run()} busy=${retry.busy}>Retry<//>`
      : null
  }
  ${canCancel(job) ? html`<${Button} kind="danger" icon="stop" onClick=${() => setAsking(true)}>Cancel job<//>` : null}
  <${Fault} error=${retry.error} what="Retrying" />
  ${
    asking
      ? html`<${Confirm}
          title=${`Cancel the job ${job.id}?`}
          action="Cancel job"
          onConfirm=${cancel}
          onClose=${() => setAsking(false)}
        >
          <p>${job.status === 'queued' ? QUEUED_ENDS : RUNNING_ENDS}</p>
        <//>`
      : null
  }`
}

function Detail(props: { readonly workspace: string; readonly job: JobDetailAnswer; readonly root: string }) {
  const { workspace, job, root } = props
  const { error } = job
  return html`<div class="stack stack-loose">
    ${
      hasEnded(job)
        ? html`<p>${standing(job)}</p>`
        : html`<${Progress} label=${standing(job)} value=${job.status === 'queued' ? 0 : null} max=${1} />`
    }
    ${
      error === null
        ? null
        : html`<${Note} tone="bad"><p><span class="mono">${error.code}</span>: ${error.message}</p><//>`
    }
    <${Section} title="Facts"><${JobFacts} workspace=${workspace} job=${job} /><//>
    <${Section} title="Result"><${JobResult} workspace=${workspace} job=${job} root=${root} /><//>
    <${Section} title="History"><${History} job=${job} /><//>
    <${Section} title="Runs" lead=${job.runs.length > 0 ? 'Newest first, with the attempts of each.' : null}>
      <${Runs} job=${job} />
    <//>
    ${
      job.kind === 'transcription'
        ? html`<${Section} title="Webhook"><${JobDelivery} workspace=${workspace} job=${job} /><//>`
        : null
    }
  </div>`
}

function JobFacts({ workspace, job }: { readonly workspace: string; readonly job: JobDetailAnswer }) {
  const time = (at: string | null) => html`<${Time} at=${at} exact />`
  return html`<${Facts}
    items=${[
      ['Submitted', time(job.created_at)],
      ['Started', time(job.started_at)],
      ['Ended', time(job.completed_at)],
      ['Kept until', time(job.expires_at)],
      ['App', job.app],
      [
        'Key',
        job.key_name === null
          ? html`<span class="mono">${job.key_id}</span>`
          : html`<span title=${job.key_id}>${job.key_name}</span>`,
      ],
      ['Priority', job.mode],
      ['Attempts', number(job.attempts)],
      ['Route version', html`<span class="mono">${job.policy_version_id ?? '–'}</span>`],
      [
        'Submitted by',
        html`<a class="mono" href=${requestPath(workspace, job.request_id)}>${job.request_id}</a>`,
      ],
    ]}
  />`
}

function History({ job }: { readonly job: JobDetailAnswer }) {
  return html`<ol class="job-steps">
    ${jobSteps(job).map(
      ({ at, status, text, milliseconds: length }, index) => html`<li class="job-step" key=${index}>
        <${Time} at=${at} exact />
        <${StatusBadge} status=${status} />
        <span>${text}</span>
        <span class="job-step-length">${length === null ? '' : `for ${milliseconds(length)}`}</span>
      </li>`,
    )}
  </ol>`
}

function Runs({ job }: { readonly job: JobDetailAnswer }) {
  const { runs, attempts } = job
  if (runs.length === 0)
    return html`<p class="quiet">${hasEnded(job) ? GONE : attempts === 0 ? NONE : BEGUN}</p>`
  return html`<ul>
    ${runs.map(
      (run, index) => html`<li class="job-run" key=${`${run.at} ${index}`}>
        <div class="job-run-words">
          <h3>Run ${runs.length - index}</h3>
          <${Outcome} request=${run} />
          <span class="quiet">${milliseconds(run.milliseconds)}, ended <${Time} at=${run.at} /></span>
        </div>
        <${Attempts} request=${run} />
      </li>`,
    )}
  </ul>`
}
