import type { Price } from '../schema/facts.ts'
import { CAPABILITY_OF, OPERATION_NAMES, type OperationName } from '../schema/operations.ts'
import { isFor, type ModelFacts, type Provider } from '../schema/provider.ts'
import type { Faults, Path } from './faults.ts'

type PartOfPrice = keyof Price

const TOKENS: readonly PartOfPrice[] = ['per_1m_input_tokens_usd', 'per_1m_output_tokens_usd']

/** What a price must hold for an operation to have a cost: all parts of one of the sets. */
const PRICED: Readonly<Record<OperationName, readonly (readonly PartOfPrice[])[]>> = {
  transcription: [['per_hour_usd']],
  translation: [['per_hour_usd']],
  speech: [['per_1k_characters_usd']],
  chat: [TOKENS],
  complete: [TOKENS],
  vision: [TOKENS],
  embeddings: [['per_1m_input_tokens_usd']],
  image: [['per_image_usd'], TOKENS],
  video: [['per_video_second_usd'], ['per_credit_usd']],
}

/** Adds faults of a price that its shape cannot hold: periods that end before they begin, tiers out of order. */
export function checkTerms(price: Price, path: Path, faults: Faults): void {
  checkTiers(price, path, faults)
  for (const [index, { from, until, ...parts }] of (price.periods ?? []).entries()) {
    const at = [...path, 'periods', index]
    if (from === undefined && until === undefined) faults.add(at, 'needs a `from` or an `until`')
    if (from !== undefined && until !== undefined && from > until)
      faults.add(at, `ends before it begins: ${until}`)
    checkTiers(parts, at, faults)
  }
}

function checkTiers({ tiers = [] }: Pick<Price, 'tiers'>, path: Path, faults: Faults): void {
  for (const [index, { over_input_tokens: over }] of tiers.entries())
    if (index > 0 && over <= (tiers[index - 1]?.over_input_tokens ?? 0))
      faults.add([...path, 'tiers', index, 'over_input_tokens'], 'must be more than that of the tier before')
}

/** Platform calls are paid out of credits, so what each operation costs that the entry may serve has to be known. */
export function checkPrice(facts: ModelFacts, protocol: Provider, path: Path, faults: Faults): void {
  const missing = new Set<string>()
  for (const operation of OPERATION_NAMES) {
    if (!facts.capabilities.includes(CAPABILITY_OF[operation]) || !isFor(facts, protocol, operation)) continue
    const sets = PRICED[operation]
    if (sets.some((parts) => parts.every((part) => facts.price?.[part] !== undefined))) continue
    const [first = []] = sets
    for (const part of first) if (facts.price?.[part] === undefined) missing.add(part)
  }
  for (const part of missing) {
    const why = 'platform access needs it, and the built-in table has none for this model'
    faults.add([...path, 'price', part], `is missing: ${why}`)
  }
}
