import { useEffect, useState } from 'preact/hooks'
import { bytes, duration } from '../../format.ts'
import { html } from '../../html.ts'
import { Button } from '../../parts/button.ts'
import { Progress } from '../../parts/progress.ts'
import { Note } from '../../parts/states.ts'
import { pathOf } from '../../paths.ts'
import { CallFailure } from './call-failure.ts'
import type { Run } from './hearing-run.ts'
import type { Transfer } from './transfer-rate.ts'

const CANCELLED = {
  sending: 'Cancelled during the upload. Nothing was sent to a provider or charged.',
  working: 'Cancelled while waiting for the provider. Work done by then may be charged.',
  job: 'Job cancelled. There is no result.',
} as const

/** How far a transcription is: sent bytes at first, then whose time it takes; or how it ended without a transcript. */
export function HearingProgress(props: {
  readonly workspace: string
  readonly run: Run
  readonly onCancel: () => void
}) {
  const { workspace, run, onCancel } = props
  const cancel = html`<${Button} small icon="close" onClick=${onCancel}>Cancel<//>`
  switch (run.at) {
    case 'sending':
      return html`<${Sending} transfer=${run.transfer} cancel=${cancel} />`
    case 'working':
      return html`<${Working} sinceMs=${run.sinceMs} cancel=${cancel} />`
    case 'job':
      return html`<div class="play-progress">
        <${Progress} label=${jobInWords(run)} value=${null} max=${1} />
        <p class="small">
          <a href=${pathOf(workspace, 'jobs', run.id)}>${run.id}</a> continues when you leave this page.
        </p>
        ${run.cancelling ? null : cancel}
      </div>`
    case 'cancelled':
      return html`<${Note}>${CANCELLED[run.during]}<//>`
    case 'failed':
      return html`<${CallFailure} workspace=${workspace} error=${run.error} />`
    default:
      return null
  }
}

function Sending({ transfer, cancel }: { readonly transfer: Transfer; readonly cancel: unknown }) {
  const { sentBytes, totalBytes, bytesPerSecond: rate, secondsLeft: left } = transfer
  const words = [
    `${bytes(sentBytes)} of ${bytes(totalBytes)}`,
    ...(rate === null ? [] : [`${bytes(rate)}/s`]),
    ...(left === null || left < 1 ? [] : [`${duration(left)} left`]),
  ]
  return html`<div class="play-progress">
    <${Progress} label="Uploading" value=${sentBytes} max=${totalBytes} text=${words.join(' · ')} />
    ${cancel}
  </div>`
}

function Working({ sinceMs, cancel }: { readonly sinceMs: number; readonly cancel: unknown }) {
  const [seconds, setSeconds] = useState(0)
  useEffect(() => {
    const timer = setInterval(() => setSeconds((Date.now() - sinceMs) / 1_000), 500)
    return () => clearInterval(timer)
  }, [sinceMs])
  return html`<div class="play-progress">
    <${Progress} label="Waiting for provider…" value=${null} max=${1} text=${`for ${duration(seconds)}`} />
    ${cancel}
  </div>`
}

function jobInWords({ job, cancelling }: Extract<Run, { readonly at: 'job' }>): string {
  if (cancelling) return 'Cancelling'
  if (job === null || job.status === 'queued') {
    return job !== null && job.attempts > 0 ? 'Waiting to be retried' : 'Queued'
  }
  return 'Processing'
}
