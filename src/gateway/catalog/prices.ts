import type { Price } from '../../contracts/facts.ts'
import { CAPABILITY_OF, OPERATION_NAMES, type OperationName } from '../../contracts/operations.ts'
import { isFor, type ModelFacts, type Provider } from '../../contracts/provider.ts'
import type { ProviderFields } from './file.ts'
import type { Issues, Path } from './issues.ts'

/** Prices by model that a provider or a workspace has agreed upon. */
type Prices = NonNullable<ProviderFields['prices']>

/** The prices agreed upon for a model; empty: none. */
export function agreedIn(
  prices: Prices | undefined,
  model: string,
): { readonly price?: Price; readonly live?: Price } {
  if (prices === undefined || !Object.hasOwn(prices, model)) return {}
  const { live, ...price } = prices[model]!
  return {
    ...(Object.keys(price).length === 0 ? {} : { price }),
    ...(live === undefined ? {} : { live }),
  }
}

/** Adds issues of agreed prices that their shape cannot hold. */
export function checkPrices(prices: Prices | undefined, path: Path, issues: Issues): void {
  for (const [model, { live, ...price }] of Object.entries(prices ?? {})) {
    checkTerms(price, [...path, model], issues)
    if (live !== undefined) checkTerms(live, [...path, model, 'live'], issues)
  }
}

type PartOfPrice = keyof Price

const TOKENS: readonly PartOfPrice[] = ['per_1m_input_tokens_usd', 'per_1m_output_tokens_usd']
/** Tokens of audio, which are estimated before the answer is here. */
const AUDIO_TOKENS: readonly PartOfPrice[] = [...TOKENS, 'audio_tokens_per_second']

/** Price parts that give each operation a cost: all parts of one of its sets. */
const PRICED: Readonly<Record<OperationName, readonly (readonly PartOfPrice[])[]>> = {
  transcription: [['per_hour_usd'], AUDIO_TOKENS],
  translation: [['per_hour_usd'], AUDIO_TOKENS],
  speech: [['per_1k_characters_usd'], AUDIO_TOKENS],
  chat: [TOKENS],
  complete: [TOKENS],
  vision: [TOKENS],
  embeddings: [['per_1m_input_tokens_usd']],
  image: [['per_image_usd'], TOKENS],
  video: [['per_video_second_usd'], ['per_credit_usd']],
}

/** Adds issues of a price that its shape cannot hold: periods that end before they begin, tiers out of order. */
export function checkTerms(price: Price, path: Path, issues: Issues): void {
  checkTiers(price, path, issues)
  for (const [name, parts] of Object.entries(price.by_service_tier ?? {}))
    checkTiers(parts, [...path, 'by_service_tier', name], issues)
  for (const [index, { from, until, ...parts }] of (price.periods ?? []).entries()) {
    const at = [...path, 'periods', index]
    if (from === undefined && until === undefined) issues.add(at, 'must have `from`, `until` or both')
    if (from !== undefined && until !== undefined && from > until)
      issues.add(at, `must end after it begins: ${until}`)
    checkTiers(parts, at, issues)
  }
}

function checkTiers({ tiers = [] }: Pick<Price, 'tiers'>, path: Path, issues: Issues): void {
  for (const [index, { over_input_tokens: over }] of tiers.entries())
    if (index > 0 && over <= (tiers[index - 1]?.over_input_tokens ?? 0))
      issues.add([...path, 'tiers', index, 'over_input_tokens'], 'must be greater than in the tier before')
}

/** Platform calls are paid out of credits, so what each operation costs that the entry may serve has to be known. */
export function checkPrice(facts: ModelFacts, protocol: Provider, path: Path, issues: Issues): void {
  const missing = new Set<string>()
  for (const operation of OPERATION_NAMES) {
    if (!facts.capabilities.includes(CAPABILITY_OF[operation]) || !isFor(facts, protocol, operation)) continue
    const sets = PRICED[operation]
    if (sets.some((parts) => parts.every((part) => facts.price?.[part] !== undefined))) continue
    const [first = []] = sets
    for (const part of first) if (facts.price?.[part] === undefined) missing.add(part)
  }
  for (const part of missing) issues.add([...path, 'price', part], PRICE_MISSING)
  const hears = facts.live !== undefined && facts.capabilities.includes('audio_input')
  if (hears && protocol.live !== undefined && facts.live.price?.per_hour_usd === undefined)
    issues.add([...path, 'live', 'price', 'per_hour_usd'], PRICE_MISSING)
}

const PRICE_MISSING = 'is missing: platform access needs it, and the built-in table has none for this model'
