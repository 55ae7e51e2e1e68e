import type { ManagedBy } from '../../../admin/parts.ts'
import type { ProviderFields } from '../../../catalog/file.ts'
import type { Capability, Feature, Hint } from '../../../contracts/calls.ts'
import type { Price } from '../../../contracts/facts.ts'

// Answers about providers and models, in wire names; times are RFC 3339. The page is typed by the same.

/** GET /workspaces/:workspace/models */
export interface ModelsAnswer {
  /** The workspace's own providers and the platform's, which it can build routes of. */
  readonly providers: readonly {
    readonly name: string
    readonly kind: string
    readonly access: 'byok' | 'platform'
    readonly models: readonly ModelAnswer[]
    /** It also takes models that are not listed: their capabilities have to be declared. */
    readonly open: boolean
  }[]
}

export interface ModelAnswer {
  readonly model: string
  readonly capabilities: readonly Capability[]
  readonly features: readonly Feature[]
  readonly hints: readonly Hint[]
  /** Today's; null: unknown. */
  readonly price: Price | null
  readonly translates: boolean
  /** One sentence for whoever routes to it; absent: none is needed. */
  readonly note?: string
}

/** GET /workspaces/:workspace/providers and GET /providers (of the platform) → {providers, kinds} */
export interface ProviderAnswer {
  readonly name: string
  readonly kind: string
  readonly access: 'byok' | 'platform'
  readonly workspace: string | null
  /** Null: for operators only, or the kind's own. */
  readonly base_url: string | null
  /** `reference`: read from the environment or a file. The credential itself is never returned. */
  readonly credential: 'stored' | 'reference' | 'none'
  readonly managed_by: ManagedBy
  /** Other declared fields: price, capabilities, … */
  readonly facts: Omit<
    ProviderFields,
    'kind' | 'access' | 'workspace' | 'api_key' | 'base_url' | 'base_urls' | 'health'
  >
  /** Its servers in place of `base_url`, and how they are probed; absent: for operators only, or it has one address. */
  readonly base_urls?: readonly string[]
  readonly health?: NonNullable<ProviderFields['health']>
  /** The same in force, in that order; absent: it has one address. */
  readonly replicas?: readonly ReplicaAnswer[]
  /** Why it is not in force; absent: it is. */
  readonly issues?: readonly string[]
}

/** A server of a provider, as the node that answers sees it. */
export interface ReplicaAnswer {
  /** It gets calls. */
  readonly up: boolean
  /** Calls and live sessions that are under way. */
  readonly calls: number
  /** How often it was passed over since a call at it had failed. */
  readonly ejections: number
  /** Why its probes fail, in our words; null: they do not. */
  readonly trouble: string | null
}

export interface FactsAnswer {
  /** When the document was issued by which models are known. */
  readonly issued_at: string
  /** Stale facts: models of routes that have ended, end soon or are deprecated, and an old document. */
  readonly stale: readonly string[]
}

export interface KindAnswer {
  readonly kind: string
  readonly needs_credential: boolean
  /** Null: it has to be given. */
  readonly base_url: string | null
}

/** GET /workspaces/:workspace/providers/:name; GET /providers/:name, for operators, of any owner */
export interface ProviderDetailAnswer {
  readonly name: string
  readonly kind: string
  readonly access: 'byok' | 'platform'
  /** Its owner; null: the platform. */
  readonly workspace: string | null
  /** Null: it is not the viewer's to see. */
  readonly credential: ProviderAnswer['credential'] | null
  readonly managed_by: ManagedBy | null
  /** Why it is not in force; absent: it is. */
  readonly issues?: readonly string[]
  /** Published routes with an entry of it, and whom they serve. */
  readonly used_by: readonly ProviderUse[]
  /** Routes that there are, listed or not. */
  readonly used_by_total: number
}

export interface ProviderUse {
  readonly workspace: string
  readonly route: string
  /** Its models in the route, in the order of the entries. */
  readonly models: readonly string[]
  /** Entries of other providers beside them. */
  readonly others: number
  /** Apps that lead to the route. */
  readonly apps: readonly string[]
}

/** POST …/providers/:name/check */
export interface ProviderCheckAnswer {
  readonly ok: boolean
  readonly models: readonly string[]
  /** In our words; null when it answered well. */
  readonly trouble: string | null
}
