import { useEffect, useState } from 'preact/hooks'
import { html } from '../../html.ts'
import { useHealth } from '../../parts/health.ts'
import { PageHead } from '../../parts/page-head.ts'
import { Loaded, Note, Skeleton } from '../../parts/states.ts'
import type { ViewProps } from '../../view.ts'
import { Charts } from './charts.ts'
import { FirstRequest } from './first-request.ts'
import { type Seen, useLive } from './live.ts'
import { Numbers } from './numbers.ts'
import { Breakers, Nodes, Providers } from './tables.ts'

/** What is going on: now, and during the last hour. */
export function OverviewView({ workspace }: ViewProps) {
  const load = useLive(workspace)
  const live = load.state === 'ready' ? html`<${Live} late=${load.error !== null} />` : null
  return html`<${PageHead} title=${workspace === null ? 'Platform overview' : 'Overview'} actions=${live} />
    <${Loaded}
      load=${load}
      what="The overview"
      skeleton=${html`<${Waiting} nodes=${workspace === null} />`}
      render=${(seen: Seen) => html`<${Whole} seen=${seen} workspace=${workspace} />`}
    />`
}

function Whole({ seen, workspace }: { readonly seen: Seen; readonly workspace: string | null }) {
  const { answer, steps } = seen
  const idle = steps.every(({ requests, upstream }) => requests === 0 && upstream.length === 0)
  const health = useHealth(workspace)
  const breakers = html`<${Breakers} breakers=${answer.breakers} all=${workspace === null} />`
  return html`<${Refused} faults=${answer.refused ?? []} />
    <${Numbers} seen=${seen} platform=${workspace === null} />
    ${
      idle
        ? html`<${FirstRequest} workspace=${workspace} />`
        : html`<${Charts} steps=${steps} nodes=${answer.nodes !== null && workspace === null}>
            ${workspace === null ? null : breakers}
          <//>`
    }
    ${idle || workspace === null ? breakers : null}
    <${Providers} health=${health ?? null} />
    ${answer.nodes === null || workspace !== null ? null : html`<${Nodes} nodes=${answer.nodes} />`}`
}

/** What was configured last does not serve, which nobody would see otherwise. For operators. */
function Refused({ faults }: { readonly faults: readonly string[] }) {
  if (faults.length === 0) return null
  return html`<${Note} tone="bad">
    <p>
      The latest configuration was rejected; the previous one is still in use. Fix it in the file or in the console:
    </p>
    <ul class="faults">${faults.map((fault) => html`<li key=${fault}>${fault}</li>`)}</ul>
  <//>`
}

/** Says whether what is seen is of now. */
function Live({ late }: { readonly late: boolean }) {
  const [hidden, setHidden] = useState(document.hidden)
  useEffect(() => {
    const listener = () => setHidden(document.hidden)
    document.addEventListener('visibilitychange', listener)
    return () => document.removeEventListener('visibilitychange', listener)
  }, [])
  const word = late ? 'Waiting for the server' : hidden ? 'Paused' : 'Live, every 5 s'
  return html`<span class=${late || hidden ? 'overview-live overview-late' : 'overview-live'}>${word}</span>`
}

/** As high as what will be there. */
function Waiting({ nodes }: { readonly nodes: boolean }) {
  return html`<div role="status"><span class="hidden">The overview: loading</span></div>
    <div class="overview-numbers" aria-hidden="true">
      ${Array.from({ length: nodes ? 7 : 6 }, (_, index) => html`<div class="overview-number" key=${index}></div>`)}
    </div>
    <div class="overview-charts" aria-hidden="true">
      ${Array.from({ length: 6 }, (_, index) => html`<div class="overview-waiting" key=${index}></div>`)}
    </div>
    <${Skeleton} rows=${2} label="" />`
}
