import { useMemo } from 'preact/hooks'
import type { HealthAnswer, ProviderAnswer } from '../../../api/answers.ts'
import { html } from '../../html.ts'
import { FileBadge, NotInForce } from '../../parts/badge.ts'
import { Button } from '../../parts/button.ts'
import { fitnessOfProvider, Health } from '../../parts/health.ts'
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
  /** Null: not known yet. */
  readonly health: HealthAnswer | null
  readonly workspace: string | null
  readonly isOperator: boolean
  readonly add: unknown
  readonly onAsk: (asking: Asking) => void
}) {
  const { providers, health, workspace, isOperator, add, onAsk } = props
  const columns = useMemo(() => columnsOf(onAsk, isOperator, health), [onAsk, isOperator, health])
  if (providers.length > 0)
    return html`<${Table}
      caption="Providers"
      columns=${columns}
      rows=${providers}
      rowKey=${({ name }: ProviderAnswer) => name}
    />`
  return workspace === null
    ? html`<${EmptyState} title="No shared providers yet" action=${add}>
        Add an account that every workspace can use. Set its prices, so that usage can be charged.
      <//>`
    : html`<${EmptyState} title="No providers yet" action=${add}>
        Add one with your API key. Then create a route from its models.
      <//>`
}

function columnsOf(
  onAsk: (asking: Asking) => void,
  isOperator: boolean,
  health: HealthAnswer | null,
): readonly Column<ProviderAnswer>[] {
  return [
    {
      head: 'Provider',
      primary: true,
      cell: ({ name, managed_by, faults }) => html`<span class="mono">${name}</span>
        <${FileBadge} managedBy=${managed_by} />
        <${NotInForce} faults=${faults} />`,
    },
    {
      head: 'Health',
      cell: ({ name }) => html`<${Health} of=${health && fitnessOfProvider(health, name)} />`,
    },
    { head: 'Type', cell: ({ kind }) => kind },
    { head: 'Credential', cell: ({ credential }) => CREDENTIAL_WORDS[credential] },
    {
      head: 'URL',
      minor: !isOperator,
      cell: ({ base_url }) =>
        base_url === null
          ? html`<span class="quiet">default</span>`
          : html`<span class="cut cut-wide mono small" title=${base_url}>${base_url}</span>`,
    },
    { head: 'Pricing overrides', minor: true, cell: ({ facts }) => declaredInWords(facts) },
    {
      head: 'Actions',
      hideHead: true,
      align: 'end',
      narrow: true,
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
  stored: '•••• saved',
  reference: 'from environment or file',
  none: 'none',
}

function declaredInWords({ price, capabilities }: ProviderAnswer['facts']) {
  const parts = [
    ...(price === undefined ? [] : [priceInWords(price)]),
    ...(capabilities === undefined ? [] : [`${capabilities.length} capabilities`]),
  ]
  return parts.length === 0 ? html`<span class="quiet">–</span>` : parts.join(' · ')
}
