import type { ComponentChildren } from 'preact'
import { useMemo } from 'preact/hooks'
import type { OverviewStep } from '../../../api/answers.ts'
import { bytes, milliseconds } from '../../format.ts'
import { html } from '../../html.ts'
import { Chart } from '../../parts/chart.ts'
import { plotOf, upstreamReads } from './history.ts'
import { rate } from './numbers.ts'

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
  const plots = useMemo(
    () => ({
      requests: plotOf(steps, {
        requests: (step) => perSecond(step.requests, step),
        errors: (step) => perSecond(step.errors, step),
      }),
      added: plotOf(steps, { p50: (step) => step.added_p50_ms, p95: (step) => step.added_p95_ms }),
      upstream: plotOf(steps, upstreamReads(steps, PROVIDERS_MAX)),
      memory: plotOf(steps, { used: (step) => step.memory_used_bytes }),
    }),
    [steps],
  )
  const limit = steps.at(-1)?.memory_limit_bytes ?? 0
  return html`<div class="overview-charts">
    <${Chart} title="Requests" unit="per second" data=${plots.requests} tones=${[1, 'bad']} format=${rate} />
    <${Chart}
      title="Added latency"
      unit="Larkway’s own share"
      data=${plots.added}
      format=${milliseconds}
      top=${LATENCY_TOP_MS}
    />
    ${
      plots.upstream.lines.length === 0
        ? null
        : html`<${Chart}
            title="Upstream latency"
            unit="p95 by provider"
            data=${plots.upstream}
            format=${milliseconds}
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
