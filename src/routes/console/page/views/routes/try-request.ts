import type { Strategy } from '../../../../../schema/catalog.ts'
import type { ExplainedEntry, RouteAnswer, WorkspaceAnswer } from '../../../api/answers.ts'
import { plural } from '../../format.ts'
import { html } from '../../html.ts'
import { Button } from '../../parts/button.ts'
import { Icon } from '../../parts/icon.ts'
import { Section } from '../../parts/page-head.ts'
import { Fault } from '../../parts/states.ts'
import { SampleFields } from './sample-fields.ts'
import type { SampleForm } from './sample-form.ts'
import type { Explanation } from './use-explain.ts'
import { BREAKER_WORDS, leftWords, type Verdicts } from './verdicts.ts'

/** A sample request, and what would become of it with the route as it is on the screen. */
export function TryRequest(props: {
  readonly form: SampleForm
  readonly onChange: (form: SampleForm) => void
  readonly explanation: Explanation
  readonly verdicts: Verdicts
  readonly strategy: Strategy
  readonly route: RouteAnswer
  readonly workspace: WorkspaceAnswer
}) {
  const { form, onChange, explanation, verdicts, strategy, route, workspace } = props
  return html`<div class="routes-aside">
    <${Section}
      title="Try a request"
      lead="Shows which entry would handle the request. Nothing is sent."
    >
      <${Outcome}
        explanation=${explanation}
        verdicts=${verdicts}
        route=${route.name}
        strategy=${strategy}
      />
      <${SampleFields}
        form=${form}
        onChange=${onChange}
        faults=${explanation.faults}
        route=${route}
        workspace=${workspace}
      />
    <//>
  </div>`
}

function Outcome(props: {
  readonly explanation: Explanation
  readonly verdicts: Verdicts
  readonly route: string
  readonly strategy: Strategy
}) {
  const { explanation, verdicts, route, strategy } = props
  const { answer, error, busy, retry } = explanation
  if (error !== null)
    return html`<div class="routes-outcome">
      <${Fault} error=${error} what="No preview" />
      <div><${Button} small icon="refresh" onClick=${retry} busy=${busy}>Try again<//></div>
    </div>`
  const [first] = verdicts.order
  const left = answer?.entries.filter(({ rank }) => rank === null) ?? []
  return html`<div
    class=${`routes-outcome${busy ? ' routes-outcome-old' : ''}`}
    role="region"
    aria-label="Preview result"
    tabindex="0"
    aria-busy=${busy}
  >
    <div class="routes-outcome-head" role="status" data-outcome=${outcomeName(explanation, first)}>
      <${Headline} explanation=${explanation} first=${first} route=${route} />
    </div>
    ${
      verdicts.order.length > 1
        ? html`<p class="small">
            <span class="quiet">Fallbacks</span> ${verdicts.order
              .slice(1)
              .map(
                (row, index) =>
                  html`<span key=${index}>${index > 0 ? ', ' : ''}<${Name} row=${row} route=${route} /></span>`,
              )}
          </p>
          ${
            strategy === 'weighted'
              ? html`<p class="small quiet">
                  One possible order. The next request may start with another entry.
                </p>`
              : null
          }`
        : null
    }
    ${
      left.length === 0
        ? null
        : html`<ul class="routes-left small">
            ${left.map(
              (row, index) => html`<li key=${index}>
                <${Name} row=${row} route=${route} />
                <span class="quiet">Skipped: ${leftWords(row)}</span>
              </li>`,
            )}
          </ul>`
    }
  </div>`
}

function outcomeName({ answer }: Explanation, first: ExplainedEntry | undefined): string {
  if (answer === null) return 'unknown'
  if (answer.faults.length > 0) return 'faulty'
  if (first === undefined) return 'refused'
  return first.breaker === undefined ? 'served' : 'doubtful'
}

function Headline(props: {
  readonly explanation: Explanation
  readonly first: ExplainedEntry | undefined
  readonly route: string
}) {
  const { explanation, first, route } = props
  const { answer, faults } = explanation
  if (Object.keys(faults).length > 0) return html`<${Icon} name="alert" /><p>Fix the fields marked below.</p>`
  if (answer === null) return html`<span class="spin" aria-hidden="true"></span><p>Checking…</p>`
  if (answer.faults.length > 0)
    return html`<${Icon} name="alert" />
      <p>Fix ${plural(answer.faults.length, 'error')} to publish.</p>`
  if (first !== undefined)
    return html`<${Icon} name=${first.breaker === undefined ? 'check' : 'alert'} />
      <p>
        <strong><${Name} row=${first} route=${route} /></strong>
        ${first.breaker === undefined ? ' is selected.' : ` would be tried; ${BREAKER_WORDS[first.breaker]}.`}
      </p>`
  if (answer.refusal === null) return html`<${Icon} name="alert" /><p>Add an entry first.</p>`
  return html`<${Icon} name="alert" />
    <p>Refused with <code>${answer.refusal.code}</code>: ${answer.refusal.message}</p>`
}

/** A row of another route names that, too. */
function Name({ row, route }: { readonly row: ExplainedEntry; readonly route: string }) {
  return html`<span class="mono">${row.provider}/${row.model}</span>${
    row.route === route ? null : html` <span class="quiet small">(route ${row.route})</span>`
  }`
}
