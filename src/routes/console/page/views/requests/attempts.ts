import { useEffect, useRef } from 'preact/hooks'
import type { RequestAnswer } from '../../../api/answers.ts'
import { milliseconds } from '../../format.ts'
import { html } from '../../html.ts'
import { StatusBadge } from '../../parts/badge.ts'
import { type AttemptBar, attemptBars } from './attempt-times.ts'

/** The attempts of a request, each on the request's time: who was tried, for how long, and why it failed. */
export function Attempts({ request }: { readonly request: RequestAnswer }) {
  const { bars, totalMs } = attemptBars(request)
  if (bars.length === 0) {
    return html`<p class="quiet">
      ${request.replayed ? 'Replayed from an earlier request. No provider was called.' : 'No provider was called.'}
    </p>`
  }
  return html`<ol class="attempts">
    ${bars.map((bar, index) => html`<${Attempt} key=${index} bar=${bar} place=${index + 1} />`)}
    <li class="attempts-axis" aria-hidden="true"><span>0</span><span>${milliseconds(totalMs)}</span></li>
  </ol>`
}

function Attempt({ bar, place }: { readonly bar: AttemptBar; readonly place: number }) {
  const { provider, model, status, reason, ok, from, length } = bar
  const fill = useRef<HTMLSpanElement>(null)
  useEffect(() => {
    fill.current?.style.setProperty('inset-inline-start', `${from * 100}%`)
    fill.current?.style.setProperty('inline-size', `${length * 100}%`)
  }, [from, length])
  return html`<li class="attempt">
    <div class="attempt-words">
      <span class="attempt-place">${place}</span>
      <span class="mono attempt-name">${provider}/${model}</span>
      <${StatusBadge} status=${status ?? (ok ? 'ok' : 'failed')} />
      <span class="attempt-time">${milliseconds(bar.milliseconds)}</span>
    </div>
    <div class="attempt-track">
      <span ref=${fill} class=${ok ? 'attempt-fill' : 'attempt-fill attempt-failed'}></span>
    </div>
    <p class=${ok ? 'quiet small' : 'small'}>${ok ? 'answered' : reason}</p>
  </li>`
}
