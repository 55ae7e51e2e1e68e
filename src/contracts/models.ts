import type { ModelFacts } from './provider.ts'

/** Stage of a model in its life. */
export interface DatedModel {
  readonly kind: string
  readonly model: string
  /** Day on which the facts were looked up. */
  readonly asOf: string
  /** Announced last day; null: none. */
  readonly endsOn: string | null
  /** Day from which on its provider advises against it; null: it does not. */
  readonly deprecatedOn: string | null
  /** Model that the provider names in its place; null: none. */
  readonly successor: string | null
  /** One sentence for whoever routes to it; null: none is needed. */
  readonly note: string | null
}

/** Facts of models, as one dated document has them. */
export interface ModelTable {
  /** When the document was issued, RFC 3339 in UTC with milliseconds. */
  readonly issuedAt: string
  /** `shipped`: part of the program; `stored`: put into the state by `larkway models update`. */
  readonly origin: 'shipped' | 'stored'
  /**
   * The facts of a model; a dated snapshot (`gpt-4o-mini-tts-2025-12-15`) has those of its model. Undefined for a model
   * that the document lacks: what it can do is then the configuration's to say, as for most of `openai-compatible`.
   */
  factsOf(kind: string, model: string): ModelFacts | undefined
  /** The dates of the same model. */
  dated(kind: string, model: string): DatedModel | undefined
  /** Every model, in the order of the document. */
  all(): readonly DatedModel[]
}

/** A document of facts as the state keeps it. */
export interface StoredModels {
  /** The signed document, JSON. */
  readonly text: string
  /**
   * `issued_at` of the document that it was put in place of. The one of a program that is newer than both wins over it.
   */
  readonly over: string
}

/** The facts that are in force beside what the state keeps, and why that is not; null: it is, or there is none. */
export interface ModelsInForce {
  readonly table: ModelTable
  readonly refused: string | null
}
