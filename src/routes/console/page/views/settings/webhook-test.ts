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
      <${Button} onClick=${() => test.run()} busy=${test.busy}>Send a test<//>
      ${children}
    </div>
    ${test.busy ? html`<p class="small quiet">A signed message of no job is sent; it waits up to 10 s.</p>` : null}
    <div aria-live="polite">${outcome === null ? null : html`<${Outcome} outcome=${outcome} />`}</div>
    <${Fault} error=${test.error} what="The test" />
  </div>`
}

function Outcome({ outcome }: { readonly outcome: WebhookTestAnswer }) {
  const { ok, status, milliseconds: length, reason } = outcome
  const answered = status === null ? 'No answer' : `Answered ${status}`
  if (ok) return html`<${Note} tone="ok">${answered} after ${milliseconds(length)}: it takes deliveries.<//>`
  return html`<${Note} tone="bad">
    <p>${answered} after ${milliseconds(length)}${reason === null ? '' : `: ${reason}`}.</p>
    <p>
      ${
        status === null
          ? 'Check that the host is public, that its certificate is valid and that it answers within 10 s.'
          : 'The receiver has to answer with any 2xx. Check what it makes of the signature, then test again.'
      }
    </p>
  <//>`
}
