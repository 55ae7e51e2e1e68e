import type { ModelsAnswer } from '../../../api/answers.ts'
import { api } from '../../api.ts'
import { plural } from '../../format.ts'
import { html } from '../../html.ts'
import { useLoad } from '../../load.ts'
import { Section } from '../../parts/page-head.ts'
import { Loaded } from '../../parts/states.ts'
import { type Column, Table } from '../../parts/table.ts'
import { apiPath, pathOf } from '../../paths.ts'

type PlatformProvider = ModelsAnswer['providers'][number]

/** What a workspace may use beside its own: the providers of the platform, which operators manage. */
export function PlatformList({
  workspace,
  isOperator,
}: {
  readonly workspace: string
  readonly isOperator: boolean
}) {
  const load = useLoad(
    async (signal) => {
      const { providers } = await api.get<ModelsAnswer>(apiPath`/workspaces/${workspace}/models`, { signal })
      return providers.filter(({ access }) => access === 'platform')
    },
    [workspace],
  )
  const manage = isOperator ? html`<a href=${pathOf(null, 'providers')}>Manage them</a>` : null
  return html`<${Section}
    title="Of the platform"
    lead="Every workspace may use them. What their calls cost is charged as credits."
    actions=${manage}
  >
    <${Loaded}
      load=${load}
      what="The providers of the platform"
      rows=${2}
      render=${(providers: readonly PlatformProvider[]) =>
        providers.length === 0
          ? html`<p class="quiet">There is none.${isOperator ? '' : ' Operators add them.'}</p>`
          : html`<${Table}
              caption="Providers of the platform"
              columns=${COLUMNS}
              rows=${providers}
              rowKey=${({ name }: PlatformProvider) => name}
            />`}
    />
  <//>`
}

const COLUMNS: readonly Column<PlatformProvider>[] = [
  { head: 'Provider', primary: true, cell: ({ name }) => html`<span class="mono">${name}</span>` },
  { head: 'Kind', cell: ({ kind }) => kind },
  {
    head: 'Models',
    cell: ({ models, open }) => {
      const listed = models.length === 0 ? '' : plural(models.length, 'model')
      const others = open ? (listed === '' ? 'those that routes name' : ', and others that routes name') : ''
      return listed + others || html`<span class="quiet">none</span>`
    },
  },
]
