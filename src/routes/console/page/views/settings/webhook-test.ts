import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import type { WebhookTestAnswer } from '../../../api/answers.ts'
import { api } from '../../api.ts'
import { milliseconds } from '../../format.ts'
import { html } from '../../html.ts'
import { useAction } from '../../load.ts'
import { Button } from '../../parts/button.ts'
import { Fault, Note } from '../../parts/states.ts'

/** Calls the webhook once with a signed message of its own, and says what it answered. */
export function WebhookTest(props: {
  readonly path: string
  /** Other buttons, beside that of the test. */
  readonly children: ComponentChildren
}) {
  const { path, children } = props
  const [outcome, setOutcome] = useState<WebhookTestAnswer | null>(null)
  const test = useAction(async () => {
    setOutcome(null)
    setOutcome(await api.post<WebhookTestAnswer>(`${path}/test`))
  })
  return html`<div class="stack stack-tight">
    <div class="actions">
      <${Button} onClick=${() => test.run()} busy=${test.busy}>Send test event<//>
      ${children}
    </div>
    ${test.busy ? html`<p class="small quiet">Sending a signed test event (10 s timeout).</p>` : null}
    <div aria-live="polite">${outcome === null ? null : html`<${Outcome} outcome=${outcome} />`}</div>
    <${Fault} error=${test.error} what="Not sent" />
  </div>`
}

function Outcome({ outcome }: { readonly outcome: WebhookTestAnswer }) {
  const { ok, status, milliseconds: length, reason } = outcome
  const answered = status === null ? 'No answer' : `HTTP ${status}`
  if (ok) return html`<${Note} tone="ok">${answered} after ${milliseconds(length)}. The webhook works.<//>`
  return html`<${Note} tone="bad">
    <p>${answered} after ${milliseconds(length)}${reason === null ? '' : `: ${reason}`}.</p>
    <p>
      ${
        status === null
          ? 'Check that the host is public, has a valid certificate and answers within 10 s.'
          : 'The receiver must answer with a 2xx status. Check how it verifies the signature, then test again.'
      }
    </p>
  <//>`
}
