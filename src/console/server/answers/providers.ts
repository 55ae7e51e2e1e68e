import type { Static } from 'typebox'
import type { Capability, Feature, Hint } from '../../../contracts/calls.ts'
import type { Price } from '../../../contracts/facts.ts'
import type * as shapes from '../answer-shapes.ts'

// Answers about providers and models. The page is typed by the same.

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

/** GET /workspaces/:workspace/providers and GET /providers (of the platform) → {providers, kinds, facts} */
export type ProviderAnswer = Static<typeof shapes.Provider>

export type ReplicaAnswer = NonNullable<ProviderAnswer['replicas']>[number]

export type FactsAnswer = Static<typeof shapes.Facts>

export type KindAnswer = Static<typeof shapes.Kind>

/** GET /workspaces/:workspace/providers/:name; GET /providers/:name, for operators, of any owner */
export type ProviderDetailAnswer = Static<typeof shapes.ProviderDetail>

/** A published route with an entry of the provider; its models are in the order of the entries. */
export type ProviderUse = ProviderDetailAnswer['used_by'][number]

/** POST …/providers/:name/check */
export type ProviderCheckAnswer = Static<typeof shapes.ProviderCheck>
