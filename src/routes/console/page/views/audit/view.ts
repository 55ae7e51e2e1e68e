import { useState } from 'preact/hooks'
import type { AuditAnswer } from '../../../api/answers.ts'
import { api } from '../../api.ts'
import { html } from '../../html.ts'
import { useAction, useLoad } from '../../load.ts'
import { Button } from '../../parts/button.ts'
import { Switch } from '../../parts/choice.ts'
import { PageHead } from '../../parts/page-head.ts'
import { EmptyState, Fault, Loaded } from '../../parts/states.ts'
import { type Column, Table } from '../../parts/table.ts'
import { Time } from '../../parts/time.ts'
import { queryOf } from '../../paths.ts'
import { useKept, useQuery } from '../../router.ts'
import type { ViewProps } from '../../view.ts'
import { byWhom, hashesOf, joined } from './lines.ts'

/** How many the API answers at once; fewer are the last. */
const PAGE_LINES = 100

interface Answer {
  readonly lines: readonly AuditAnswer[]
}

const WHEN: Column<AuditAnswer> = {
  head: 'When',
  narrow: true,
  cell: ({ at }) => html`<${Time} at=${at} exact />`,
}

const WHAT: readonly Column<AuditAnswer>[] = [
  { head: 'Action', primary: true, cell: ({ action }) => html`<span class="mono nowrap">${action}</span>` },
  {
    head: 'Target',
    cell: ({ target }) => html`<span class="cut cut-wide mono" title=${target}>${target}</span>`,
  },
  {
    head: 'Who',
    cell: (line) => {
      const { name, via } = byWhom(line)
      return html`<span title=${line.by.key_id ?? undefined}>${name}</span><span class="quiet">${via}</span>`
    },
  },
  {
    head: 'Before → after',
    cell: (line) => {
      const hashes = hashesOf(line)
      const title = `${line.before ?? 'none'} → ${line.after ?? 'none'}`
      return html`${hashes === null ? null : html`<span class="mono quiet" title=${title}>${hashes}</span>`}
        ${line.detail === null ? null : html`<span>${line.detail}</span>`}`
    },
  },
]

const WORKSPACE: Column<AuditAnswer> = {
  head: 'Workspace',
  cell: ({ workspace }) => workspace ?? html`<span class="quiet">platform</span>`,
}

/** Every change that was made, newest first; of all workspaces when none is given. */
export function AuditView({ workspace }: ViewProps) {
  const [query, setQuery] = useQuery()
  const playground = query.get('playground') === 'true' ? 'true' : null
  const lines = (below: number | null, signal?: AbortSignal) =>
    api.get<Answer>(`/audit${queryOf({ workspace, below, playground })}`, signal ? { signal } : {})
  const load = useLoad((signal) => lines(null, signal), [workspace, playground])
  const what = workspace === null ? 'in all workspaces and on the platform' : `in ${workspace}`
  return html`<${PageHead}
      title="Audit"
      lead=${`Who changed what ${what}, and when. Append-only.`}
      actions=${html`<${Button} icon="refresh" onClick=${load.reload} busy=${load.busy}>Refresh<//>`}
    />
    <div class="filters">
      <${Switch}
        label="Show playground keys"
        checked=${playground !== null}
        onChange=${(on: boolean) => setQuery({ playground: on ? 'true' : null })}
      />
    </div>
    <${Loaded}
      load=${load}
      what="The audit log"
      rows=${12}
      render=${({ lines: newest }: Answer) =>
        html`<${Lines}
          key=${playground ?? ''}
          newest=${newest}
          all=${workspace === null}
          more=${(below: number) => lines(below)}
        />`}
    />`
}

function Lines(props: {
  readonly newest: readonly AuditAnswer[]
  readonly all: boolean
  readonly more: (below: number) => Promise<Answer>
}) {
  const { newest, all, more } = props
  const [older, setOlder] = useKept<readonly AuditAnswer[]>('older', [])
  const [ended, setEnded] = useState(newest.length < PAGE_LINES)
  const rows = joined(newest, older)
  const last = rows.at(-1)
  const { run, busy, error } = useAction(async () => {
    if (!last) return
    const { lines } = await more(last.number)
    setEnded(lines.length < PAGE_LINES)
    setOlder(joined(rows, lines))
  })
  if (!last)
    return html`<${EmptyState} title="No changes yet">
      <p>Publishing a route, creating a key and changing a setting are all listed here.</p>
    <//>`
  const columns = all ? [WHEN, WORKSPACE, ...WHAT] : [WHEN, ...WHAT]
  return html`<${Table}
      caption="Changes, newest first"
      columns=${columns}
      rows=${rows}
      rowKey=${({ number }: AuditAnswer) => String(number)}
    />
    <div class="row table-more">
      ${
        ended
          ? html`<span class="quiet small">End of list</span>`
          : html`<${Button} onClick=${run} busy=${busy}>Show older<//>`
      }
      <${Fault} error=${error} />
    </div>`
}
