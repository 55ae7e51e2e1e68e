/** Tokens as the provider counts them; null where it does not say. Parts that it does not tell of are absent. */
export interface TokenUsage {
  readonly input_tokens: number | null
  readonly output_tokens: number | null
  /** Input that the provider read from its cache, and input that it wrote there. */
  readonly cached_input_tokens?: number
  readonly cache_write_tokens?: number
  readonly audio_input_tokens?: number
  readonly audio_output_tokens?: number
  /** Tier of service that answered, in the provider's word. */
  readonly service_tier?: string
}

/** The parts of a count of tokens. */
export type TokenDetails = Omit<TokenUsage, 'input_tokens' | 'output_tokens'>

/** Parts with the names that a provider has for them; a count of nothing is told, anything but a count is not. */
export function tokenDetails(given: Readonly<Record<keyof TokenDetails, unknown>>): TokenDetails {
  const parts: Record<string, unknown> = {}
  for (const name of COUNTED) {
    const count = given[name]
    if (typeof count === 'number' && Number.isSafeInteger(count) && count >= 0) parts[name] = count
  }
  const { service_tier: tier } = given
  if (typeof tier === 'string' && TIER_WORD.test(tier)) parts.service_tier = tier
  return parts
}

const COUNTED = [
  'cached_input_tokens',
  'cache_write_tokens',
  'audio_input_tokens',
  'audio_output_tokens',
] as const

const TIER_WORD = /^[a-z][a-z0-9_-]{0,31}$/i
