import type { ProviderAnswer } from '../../../api/answers.ts'
import { html } from '../../html.ts'
import { FileBadge, NotInForce } from '../../parts/badge.ts'
import { Button } from '../../parts/button.ts'
import { EmptyState } from '../../parts/states.ts'
import { type Column, Table } from '../../parts/table.ts'
import { priceInWords } from '../routes/price-words.ts'

/** What somebody wants of a provider; null: of a new one. */
export type Asking =
  | { readonly what: 'edit'; readonly provider: ProviderAnswer | null }
  | { readonly what: 'check' | 'delete'; readonly provider: ProviderAnswer }

/** The providers of a workspace, or (null) of the platform. */
export function ProviderList(props: {
  readonly providers: readonly ProviderAnswer[]
  readonly workspace: string | null
  readonly isOperator: boolean
  readonly add: unknown
  readonly onAsk: (asking: Asking) => void
}) {
  const { providers, workspace, isOperator, add, onAsk } = props
  if (providers.length > 0)
    return html`<${Table}
      caption="Providers"
      columns=${columnsOf(onAsk, isOperator)}
      rows=${providers}
      rowKey=${({ name }: ProviderAnswer) => name}
    />`
  return workspace === null
    ? html`<${EmptyState} title="No platform provider yet" action=${add}>
        Add an account that all workspaces may use. It needs prices, so that calls can be charged.
      <//>`
    : html`<${EmptyState} title="No provider of your own yet" action=${add}>
        Add one with the credential that the provider gave you. Then make a route of its models.
      <//>`
}

function columnsOf(onAsk: (asking: Asking) => void, isOperator: boolean): readonly Column<ProviderAnswer>[] {
  return [
    {
      head: 'Provider',
      primary: true,
      cell: ({ name, managed_by, faults }) => html`<span class="mono">${name}</span>
        <${FileBadge} managedBy=${managed_by} />
        <${NotInForce} faults=${faults} />`,
    },
    { head: 'Kind', cell: ({ kind }) => kind },
    { head: 'Credential', cell: ({ credential }) => CREDENTIAL_WORDS[credential] },
    {
      head: 'Address',
      minor: !isOperator,
      cell: ({ base_url }) =>
        base_url === null
          ? html`<span class="quiet">the kind’s own</span>`
          : html`<span class="mono small">${base_url}</span>`,
    },
    { head: 'Declared', minor: true, cell: ({ facts }) => declaredInWords(facts) },
    {
      head: 'Actions',
      hideHead: true,
      align: 'end',
      cell: (provider) => html`
      <${Button}
        small
        label=${`Check ${provider.name}`}
        onClick=${() => onAsk({ what: 'check', provider })}
      >Check<//>
      ${
        provider.managed_by === 'file'
          ? null
          : html`
              <${Button}
                small
                label=${`Edit ${provider.name}`}
                onClick=${() => onAsk({ what: 'edit', provider })}
              >Edit<//>
              <${Button}
                small
                kind="quiet"
                icon="trash"
                label=${`Delete ${provider.name}`}
                onClick=${() => onAsk({ what: 'delete', provider })}
              />
            `
      }
    `,
    },
  ]
}

const CREDENTIAL_WORDS: Readonly<Record<ProviderAnswer['credential'], string>> = {
  stored: 'stored, sealed',
  reference: 'read from environment or file',
  none: 'none',
}

function declaredInWords({ price, capabilities }: ProviderAnswer['facts']) {
  const parts = [
    ...(price === undefined ? [] : [priceInWords(price)]),
    ...(capabilities === undefined ? [] : [`${capabilities.length} abilities`]),
  ]
  return parts.length === 0 ? html`<span class="quiet">–</span>` : parts.join(' · ')
}
