import { duration, milliseconds, number, orNone, usd } from '../../format.ts'
import { html } from '../../html.ts'
import { Facts } from '../../parts/page-head.ts'
import { Note } from '../../parts/states.ts'
import { requestPath } from '../../paths.ts'
import type { CallFacts } from './heard.ts'

/** What a call came to: who served it, for how much, and what is to be known of it. */
export function ResultFacts(props: {
  readonly workspace: string
  readonly facts: CallFacts
  /** From the first byte to the last, as the page saw it. */
  readonly tookMs: number
  readonly more?: readonly (readonly [string, string])[]
}) {
  const { workspace, facts, tookMs, more = [] } = props
  const { requestId, provider, model, version, purpose, purposeSource, warnings } = facts
  return html`<div class="stack">
    ${warnings.length === 0 ? null : html`<${Warnings} warnings=${warnings} />`}
    <${Facts}
      items=${[
        ['Served by', html`<span class="mono">${provider ?? '–'}/${model ?? '–'}</span>`],
        ['Took', milliseconds(tookMs)],
        ...more,
        ['Cost', orNone(facts.costUsd, usd)],
        ...facts.usage.filter(([, count]) => count !== 0).map(([name, count]) => usageOf(name, count)),
        ['Route version', html`<span class="mono">${version ?? '–'}</span>`],
        ...(purposeSource === null || purposeSource === 'none'
          ? []
          : [['Purpose', purpose === null ? purposeSource : `${purpose} (${purposeSource})`] as const]),
        ...(requestId === null
          ? []
          : [
              [
                'Request',
                html`<a class="mono" href=${requestPath(workspace, requestId)}>${requestId}</a>`,
              ] as const,
            ]),
      ]}
    />
  </div>`
}

function Warnings({ warnings }: { readonly warnings: readonly string[] }) {
  return html`<${Note} tone="warn">
    <ul>${warnings.map((line) => html`<li key=${line}>${line}</li>`)}</ul>
  <//>`
}

function usageOf(name: string, count: number): readonly [string, string] {
  const label = name.replaceAll('_', ' ')
  const value =
    name.endsWith('_seconds') && count >= 60 ? duration(count) : number(count, count % 1 === 0 ? 0 : 2)
  return [label.charAt(0).toUpperCase() + label.slice(1), value]
}
