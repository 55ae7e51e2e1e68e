import type { ComponentChildren } from 'preact'
import { useMemo } from 'preact/hooks'
import type { OverviewStep } from '../../../api/answers.ts'
import { bytes, milliseconds } from '../../format.ts'
import { html } from '../../html.ts'
import { Chart } from '../../parts/chart.ts'
import { drawnProviders, plotOf, upstreamReads } from './history.ts'
import { rate } from './numbers.ts'
import { tonesOf } from './tones.ts'

const PROVIDERS_MAX = 6
/** So that noise of microseconds does not fill the chart. */
const LATENCY_TOP_MS = 5

const perSecond = (count: number, { step_ms: stepMs }: OverviewStep) => (count * 1000) / stepMs

/** An hour of each number that changes. */
export function Charts(props: {
  readonly steps: readonly OverviewStep[]
  readonly nodes: boolean
  /** What stands beside them. */
  readonly children?: ComponentChildren
}) {
  const { steps, nodes, children } = props
  const plots = useMemo(() => plotsOf(steps), [steps])
  const limit = steps.at(-1)?.memory_limit_bytes ?? 0
  const { providers, tones } = plots
  const more = plots.providerCount - providers.length
  const some = more > 0 ? `, ${providers.length} of ${plots.providerCount} providers` : ''
  return html`<div class="overview-charts">
    <${Chart} title="Requests" unit="per second" data=${plots.requests} tones=${[1, 2, 'bad']} format=${rate} />
    <${Chart}
      title="Gateway overhead"
      unit="per request"
      data=${plots.added}
      format=${milliseconds}
      top=${LATENCY_TOP_MS}
    />
    ${
      providers.length === 0
        ? null
        : html`<${Chart}
              title="Provider latency"
              unit=${`p95 of answered calls${some}`}
              data=${plots.latency}
              tones=${tones}
              format=${milliseconds}
            />
            <${Chart}
              title="Provider calls"
              unit=${`per second${some}`}
              data=${plots.calls}
              tones=${tones}
              format=${rate}
            />
            <${Chart}
              title="Failed provider calls"
              unit=${`per second${some}`}
              data=${plots.failed}
              tones=${tones}
              format=${rate}
            />`
    }
    ${
      nodes
        ? html`<${Chart}
            title="Memory budget"
            unit=${limit > 0 ? `of ${bytes(limit)}` : undefined}
            data=${plots.memory}
            tones=${[3]}
            format=${bytes}
            binary
            top=${limit}
          />`
        : null
    }
    ${children}
  </div>`
}

function plotsOf(steps: readonly OverviewStep[]) {
  const providers = drawnProviders(steps, PROVIDERS_MAX)
  return {
    providers,
    providerCount: drawnProviders(steps, Infinity).length,
    tones: tonesOf(providers),
    requests: plotOf(steps, {
      requests: (step) => perSecond(step.requests, step),
      '4xx': (step) => perSecond(step.client_errors, step),
      '5xx': (step) => perSecond(step.server_errors, step),
    }),
    added: plotOf(steps, { p50: (step) => step.added_p50_ms, p95: (step) => step.added_p95_ms }),
    latency: plotOf(
      steps,
      upstreamReads(providers, ({ p95_ms }) => p95_ms),
    ),
    calls: plotOf(
      steps,
      upstreamReads(providers, ({ calls }, step) => perSecond(calls, step)),
    ),
    failed: plotOf(
      steps,
      upstreamReads(providers, ({ failed }, step) => perSecond(failed, step)),
    ),
    memory: plotOf(steps, { used: (step) => step.memory_used_bytes }),
  }
}
