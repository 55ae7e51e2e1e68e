/** Tokens as the provider counts them; null where it does not say. */
export interface TokenUsage {
  readonly input_tokens: number | null
  readonly output_tokens: number | null
}
