import { useMemo } from 'preact/hooks'
import type { HealthAnswer, ModelsAnswer } from '../../../api/answers.ts'
import { api } from '../../api.ts'
import { plural } from '../../format.ts'
import { html } from '../../html.ts'
import { useLoad } from '../../load.ts'
import { fitnessOfProvider, Health } from '../../parts/health.ts'
import { Section } from '../../parts/page-head.ts'
import { Loaded } from '../../parts/states.ts'
import { type Column, Table } from '../../parts/table.ts'
import { apiPath, pathOf } from '../../paths.ts'

type PlatformProvider = ModelsAnswer['providers'][number]

/** What a workspace may use beside its own: the providers of the platform, which operators manage. */
export function PlatformList({
  workspace,
  isOperator,
  health,
}: {
  readonly workspace: string
  readonly isOperator: boolean
  /** Of the workspace's own calls; null: not known yet. */
  readonly health: HealthAnswer | null
}) {
  const columns = useMemo(() => columnsOf(health), [health])
  const load = useLoad(
    async (signal) => {
      const { providers } = await api.get<ModelsAnswer>(apiPath`/workspaces/${workspace}/models`, { signal })
      return providers.filter(({ access }) => access === 'platform')
    },
    [workspace],
  )
  const manage = isOperator ? html`<a href=${pathOf(null, 'providers')}>Manage</a>` : null
  return html`<${Section}
    title="Shared providers"
    lead="Available to every workspace. Usage is charged as credits."
    actions=${manage}
  >
    <${Loaded}
      load=${load}
      what="The shared providers"
      rows=${2}
      render=${(providers: readonly PlatformProvider[]) =>
        providers.length === 0
          ? html`<p class="quiet">None yet.${isOperator ? '' : ' Operators can add them.'}</p>`
          : html`<${Table}
              caption="Shared providers"
              columns=${columns}
              rows=${providers}
              rowKey=${({ name }: PlatformProvider) => name}
            />`}
    />
  <//>`
}

const columnsOf = (health: HealthAnswer | null): readonly Column<PlatformProvider>[] => [
  { head: 'Provider', primary: true, cell: ({ name }) => html`<span class="mono">${name}</span>` },
  {
    head: 'Health',
    cell: ({ name }) => html`<${Health} of=${health && fitnessOfProvider(health, name)} />`,
  },
  { head: 'Type', cell: ({ kind }) => kind },
  {
    head: 'Models',
    cell: ({ models, open }) => {
      const listed = models.length === 0 ? '' : plural(models.length, 'model')
      const others = open ? (listed === '' ? 'any model a route names' : ', and any other a route names') : ''
      return listed + others || html`<span class="quiet">none</span>`
    },
  },
]
