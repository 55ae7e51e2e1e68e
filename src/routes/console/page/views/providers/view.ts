import { useState } from 'preact/hooks'
import type { KindAnswer, ProviderAnswer } from '../../../api/answers.ts'
import { api } from '../../api.ts'
import { html } from '../../html.ts'
import { LOADING, useLoad } from '../../load.ts'
import { Button } from '../../parts/button.ts'
import { useHealth } from '../../parts/health.ts'
import { PageHead } from '../../parts/page-head.ts'
import { Loaded } from '../../parts/states.ts'
import { apiPath } from '../../paths.ts'
import type { ViewProps } from '../../view.ts'
import { CheckProvider } from './check-provider.ts'
import { DeleteProvider } from './delete-provider.ts'
import { EditProvider } from './edit-provider.ts'
import { PlatformList } from './platform-list.ts'
import { type Asking, ProviderList } from './provider-list.ts'

interface Listing {
  readonly providers: readonly ProviderAnswer[]
  readonly kinds: readonly KindAnswer[]
}

const PLATFORM_LEAD = 'Provider accounts that every workspace can use. Usage is charged as credits.'
const OWN_LEAD =
  'Provider accounts your routes can use. With your own credentials, the provider bills you directly.'

/** The accounts at providers: those of a workspace, or of the platform. */
export function ProvidersView({ workspace, session }: ViewProps) {
  const place = workspace === null ? '' : apiPath`/workspaces/${workspace}`
  const load = useLoad((signal) => api.get<Listing>(`${place}/providers`, { signal }), [workspace])
  const health = useHealth(workspace)
  const shown = health === undefined ? LOADING : load
  const [asking, setAsking] = useState<Asking | null>(null)
  const close = () => setAsking(null)
  const add = html`<${Button} kind="primary" icon="plus" onClick=${() => setAsking({ what: 'edit', provider: null })}>
    Add provider
  <//>`
  const setsAddress = session.role === 'operator'
  const hasNone = load.state === 'ready' && load.value.providers.length === 0
  return html`
    <${PageHead}
      title=${workspace === null ? 'Platform providers' : 'Providers'}
      lead=${workspace === null ? PLATFORM_LEAD : OWN_LEAD}
      actions=${hasNone ? null : add}
    />
    <div class="stack stack-loose">
      <${Loaded}
        load=${shown}
        what="The providers"
        render=${(listing: Listing) => html`<${ProviderList}
          providers=${listing.providers}
          health=${health ?? null}
          workspace=${workspace}
          isOperator=${setsAddress}
          add=${add}
          onAsk=${setAsking}
        />`}
      />
      ${
        // Only then is it known how much stands above it.
        workspace === null || shown.state === 'loading'
          ? null
          : html`<${PlatformList} workspace=${workspace} isOperator=${setsAddress} health=${health ?? null} />`
      }
    </div>
    ${
      asking?.what === 'edit' && load.state === 'ready'
        ? html`<${EditProvider}
            before=${asking.provider}
            kinds=${load.value.kinds}
            taken=${load.value.providers.map(({ name }) => name)}
            workspace=${workspace}
            setsAddress=${setsAddress}
            onSaved=${load.reload}
            onCheck=${(provider: ProviderAnswer) => setAsking({ what: 'check', provider })}
            onClose=${close}
          />`
        : null
    }
    ${
      asking?.what === 'check'
        ? html`<${CheckProvider} place=${place} provider=${asking.provider} onClose=${close} />`
        : null
    }
    ${
      asking?.what === 'delete'
        ? html`<${DeleteProvider}
            place=${place}
            provider=${asking.provider}
            onDone=${load.reload}
            onClose=${close}
          />`
        : null
    }
  `
}
