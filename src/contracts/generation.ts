import type { WithExtras } from './extras.ts'
import type { UpstreamRequest } from './upstream.ts'
import type { TokenUsage } from './usage.ts'

/** A text, or the tokens that the tokenizer of the model has made of one. */
export type EmbeddingInput = string | readonly number[]

export interface EmbeddingsCall {
  /** At least one. */
  readonly input: readonly EmbeddingInput[]
  /** Null: as many as the model makes. */
  readonly dimensions: number | null
}

export interface EmbeddingsResult {
  /** In the order of the input; a `Float32Array` where the provider sent one. */
  readonly embeddings: readonly ArrayLike<number>[]
  readonly usage: TokenUsage | null
}

export interface ImageCall extends WithExtras {
  readonly prompt: string
  readonly n: number
  /** `<width>x<height>` or a word of the provider's; null: its default. */
  readonly size: string | null
  readonly quality: string | null
  readonly output_format: string | null
  readonly seed: number | null
}

/** Words for how a picture was made, as OpenAI's answers have them. */
export const IMAGE_WORDS = {
  quality: ['low', 'medium', 'high', 'xhigh', 'max'],
  output_format: ['png', 'webp', 'jpeg', 'gif', 'svg'],
  background: ['transparent', 'opaque'],
} as const

export interface ImageResult {
  /** At least one; each has `base64` or `url`. */
  readonly images: readonly {
    readonly base64: string | null
    readonly url: string | null
    readonly media_type: string
  }[]
  readonly usage: TokenUsage | null
  /** How the provider says that they were made, which it may have chosen. */
  readonly made?: {
    readonly size?: string
    readonly quality?: (typeof IMAGE_WORDS.quality)[number]
    readonly output_format?: (typeof IMAGE_WORDS.output_format)[number]
    readonly background?: (typeof IMAGE_WORDS.background)[number]
  }
  /** Input tokens by kind, where the provider reports them. */
  readonly inputDetails?: { readonly text_tokens: number; readonly image_tokens: number }
  readonly warnings: readonly string[]
}

export interface VideoCall {
  readonly prompt: string
  readonly duration_seconds: number | null
  /** `<width>x<height>`; null: the provider's default. */
  readonly size: string | null
  readonly seed: number | null
}

/** Where a made video is. */
export type VideoOutput =
  | { readonly kind: 'url'; readonly url: string; readonly media_type: string }
  | { readonly kind: 'base64'; readonly base64: string; readonly media_type: string }
  /** Only our credential opens it: the gateway fetches it into the object store. */
  | { readonly kind: 'fetch'; readonly request: UpstreamRequest; readonly media_type: string }

export interface VideoResult {
  /** At least one. */
  readonly videos: readonly VideoOutput[]
  /** Length of what was made, for the price; null when the provider does not say. */
  readonly seconds: number | null
  /** Charge in the provider's own credits; null where it has none. */
  readonly credits: number | null
  readonly warnings: readonly string[]
}
