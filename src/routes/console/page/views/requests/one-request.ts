import type { RequestAnswer, RequestsAnswer } from '../../../api/answers.ts'
import { api } from '../../api.ts'
import { html } from '../../html.ts'
import { useLoad } from '../../load.ts'
import { Copy } from '../../parts/copy.ts'
import { PageHead, Section } from '../../parts/page-head.ts'
import { Loaded, Note } from '../../parts/states.ts'
import { type Column, Table } from '../../parts/table.ts'
import { Time } from '../../parts/time.ts'
import { apiPath, pathOf, queryOf } from '../../paths.ts'
import { Attempts } from './attempts.ts'
import { endpointName } from './endpoints.ts'
import { Failure } from './failure.ts'
import { Outcome } from './outcome.ts'
import { RequestFacts } from './request-facts.ts'

/** Records of the same request that are shown beside one of them. */
const SIBLINGS_MAX = 20

/** One request: why it failed, its attempts on its time, and the facts of it. */
export function OneRequest(props: {
  readonly workspace: string
  /** Of a record; or of a request, whose newest record is shown. */
  readonly id: string
  readonly search: string
}) {
  const { workspace, id, search } = props
  const place = apiPath`/workspaces/${workspace}/requests`
  const load = useLoad(
    (signal) => api.get<RequestAnswer>(place + apiPath`/${id}`, { signal }),
    [workspace, id],
  )
  const request = load.value
  const requestId = request?.id ?? null
  return html`<${PageHead}
      title=${request ? titleOf(request) : 'Request'}
      parent=${{ href: pathOf(workspace, 'requests') + search, label: 'Requests' }}
      badges=${request ? html`<${Outcome} request=${request} />` : null}
      lead=${
        requestId === null
          ? null
          : html`<span class="row">
              <code>${requestId}</code><${Copy} text=${requestId} label="Copy request ID" />
            </span>`
      }
    />
    <${Loaded}
      load=${load}
      what="The request"
      rows=${8}
      render=${(one: RequestAnswer) => html`<div class="stack stack-loose">
        ${one.replayed ? html`<${Note}>Replayed from an earlier request with the same idempotency key.<//>` : null}
        ${one.failure === null ? null : html`<${Failure} request=${one} failure=${one.failure} />`}
        <${Section} title="Attempts"><${Attempts} request=${one} /><//>
        <${Section} title="Details"><${RequestFacts} workspace=${workspace} request=${one} /><//>
        <${Siblings} workspace=${workspace} place=${place} of=${one} search=${search} />
      </div>`}
    />`
}

/** Other records with the id of this request: a submission and its runs, or requests that brought their own id. */
function Siblings(props: {
  readonly workspace: string
  readonly place: string
  readonly of: RequestAnswer
  readonly search: string
}) {
  const { workspace, place, of, search } = props
  const query = queryOf({ request_id: of.id, limit: SIBLINGS_MAX + 1 })
  const load = useLoad((signal) => api.get<RequestsAnswer>(place + query, { signal }), [place, of.record_id])
  const others = (load.value?.requests ?? []).filter(({ record_id: id }) => id !== of.record_id)
  if (others.length === 0) return null
  return html`<${Section} title="Same request ID" lead="Other records with this request ID.">
    <${Table}
      caption="Same request ID"
      columns=${SIBLING_COLUMNS}
      rows=${others.slice(0, SIBLINGS_MAX)}
      rowKey=${({ record_id: id }: RequestAnswer) => id}
      href=${({ record_id: id }: RequestAnswer) => pathOf(workspace, 'requests', id) + search}
    />
  <//>`
}

const SIBLING_COLUMNS: readonly Column<RequestAnswer>[] = [
  { head: 'Endpoint', primary: true, cell: (one) => html`<span class="mono">${titleOf(one)}</span>` },
  { head: 'Outcome', cell: (one) => html`<${Outcome} request=${one} />` },
  { head: 'Time', align: 'end', cell: ({ at }) => html`<${Time} at=${at} exact />` },
]

function titleOf({ method, path }: RequestAnswer): string {
  return path === 'job' ? endpointName(path) : `${method} ${path}`
}
