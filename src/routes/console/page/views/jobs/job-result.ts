import { useState } from 'preact/hooks'
import type { JobDetailAnswer, WorkspaceAnswer } from '../../../api/answers.ts'
import { api } from '../../api.ts'
import { html } from '../../html.ts'
import { useAction, useLoad } from '../../load.ts'
import { Button } from '../../parts/button.ts'
import { Code } from '../../parts/code.ts'
import { Fault, Note } from '../../parts/states.ts'
import { apiPath, pathOf } from '../../paths.ts'
import { type Heard, readHeard } from '../playground/heard.ts'
import { hasEnded } from './job-list.ts'

/** The result of a job, which is only loaded on request, and only where the workspace allows it. */
export function JobResult(props: {
  readonly workspace: string
  readonly job: JobDetailAnswer
  readonly root: string
}) {
  const { workspace, job, root } = props
  const [result, setResult] = useState<Heard | null>(null)
  const about = useLoad(
    (signal) => api.get<WorkspaceAnswer>(apiPath`/workspaces/${workspace}`, { signal }),
    [workspace],
  )
  const open = useAction(async () => {
    setResult(readHeard(JSON.stringify(await api.get<unknown>(`${root}/result`)), () => null))
  })
  if (!job.has_result) return html`<p class="quiet">${whyNone(job)}</p>`
  if (about.value?.content_shown === false) {
    return html`<${Note}>
      Transcripts of this workspace are hidden in the console. An admin can show them in${' '}
      <a href=${`${pathOf(workspace, 'settings')}?section=content`}>settings</a>. The app that submitted the
      job can read its result with GET /v1/transcription/jobs/${job.id}.
    <//>`
  }
  if (result !== null) {
    return html`<div class="stack stack-tight">
      <p class="job-transcript">${result.content}</p>
      <${Code} title="Full result" text=${result.raw} wrap tall />
      <div class="actions"><${Button} small onClick=${() => setResult(null)}>Hide result<//></div>
    </div>`
  }
  return html`<div class="stack stack-tight">
    <div class="actions">
      <${Button} onClick=${() => open.run()} busy=${open.busy || about.state === 'loading'}>Show result<//>
    </div>
    <${Fault} error=${open.error ?? about.error} what="The result" />
  </div>`
}

function whyNone(job: JobDetailAnswer): string {
  if (job.kind === 'queue') return 'Queued requests keep no output: it is discarded after metering.'
  if (!hasEnded(job)) return 'No result yet.'
  return job.status === 'succeeded' ? 'The result was purged.' : 'No result: the job didn’t succeed.'
}
