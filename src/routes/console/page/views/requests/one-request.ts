import type { KeyAnswer, RequestAnswer } from '../../../api/answers.ts'
import { api } from '../../api.ts'
import { html } from '../../html.ts'
import { useLoad } from '../../load.ts'
import { Copy } from '../../parts/copy.ts'
import { PageHead, Section } from '../../parts/page-head.ts'
import { Loaded, Note } from '../../parts/states.ts'
import { apiPath, pathOf } from '../../paths.ts'
import { Attempts } from './attempts.ts'
import { endpointName } from './endpoints.ts'
import { Outcome } from './outcome.ts'
import { RequestFacts } from './request-facts.ts'

/** One request: its attempts on its time, and the facts of it. */
export function OneRequest(props: {
  readonly workspace: string
  readonly id: string
  readonly search: string
}) {
  const { workspace, id, search } = props
  const load = useLoad(
    (signal) => api.get<RequestAnswer>(apiPath`/workspaces/${workspace}/requests/${id}`, { signal }),
    [workspace, id],
  )
  const keys = useLoad(
    (signal) => api.get<{ keys: readonly KeyAnswer[] }>(apiPath`/workspaces/${workspace}/keys`, { signal }),
    [workspace],
  )
  const request = load.value
  return html`<${PageHead}
      title=${request ? titleOf(request) : 'Request'}
      parent=${{ href: pathOf(workspace, 'requests') + search, label: 'Requests' }}
      badges=${request ? html`<${Outcome} request=${request} />` : null}
      lead=${html`<span class="row"><code>${id}</code><${Copy} text=${id} label="Copy request id" /></span>`}
    />
    <${Loaded}
      load=${load}
      what="The request"
      rows=${8}
      render=${(one: RequestAnswer) => {
        const key = keys.value?.keys.find((known) => known.id === one.key_id)
        return html`<div class="stack stack-loose">
          ${one.replayed ? html`<${Note}>The answer of an earlier request with the same idempotency key.<//>` : null}
          <${Section} title="Attempts"><${Attempts} request=${one} /><//>
          <${Section} title="Facts">
            <${RequestFacts} workspace=${workspace} request=${one} keyName=${key?.name ?? null} />
          <//>
        </div>`
      }}
    />`
}

function titleOf({ method, path }: RequestAnswer): string {
  return path === 'job' ? `A ${endpointName(path)}` : `${method} ${path}`
}
