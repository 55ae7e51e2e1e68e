import type { Capability } from '../schema/calls.ts'
import type { ModelFacts, Price } from '../schema/provider.ts'
import type { Faults, Path } from './faults.ts'
import type { EntryFields } from './file.ts'
import type { ResolvedProvider } from './provider.ts'

type Declared = Pick<
  EntryFields,
  'capabilities' | 'features' | 'translation_features' | 'hints' | 'limits' | 'price' | 'translates'
>

const UNKNOWN_MODEL: Omit<ModelFacts, 'capabilities'> = {
  features: [],
  hints: [],
  limits: {},
  price: null,
  translates: false,
}

/**
 * What is known of an entry's model: the built-in table, then what the file says at its provider, then at the entry.
 * A model of which the table says nothing can do what is declared and nothing else; where no capabilities are declared,
 * they are those that the declared price is for. Null when neither says; the reason is added to `faults`.
 */
export function resolveFacts(
  { configured, protocol, fields }: ResolvedProvider,
  entry: EntryFields,
  table: ModelFacts | undefined,
  path: Path,
  faults: Faults,
): ModelFacts | null {
  const declared = merge(fields, entry)
  const capabilities = [declared.capabilities, table?.capabilities, pricedIn(declared.price)].find(isFilled)
  if (capabilities === undefined) {
    faults.add([...path, 'model'], 'is not in the built-in table: declare its capabilities')
    return null
  }
  const { limits, ...rest } = declared
  const facts: ModelFacts = {
    ...(table ?? UNKNOWN_MODEL),
    ...rest,
    capabilities,
    limits: { ...table?.limits, ...limits } as ModelFacts['limits'],
  }
  if (declared.capabilities?.includes('audio_input') && protocol.transcription === undefined)
    faults.add([...path, 'capabilities'], `the kind "${protocol.kind}" has no transcription`)
  if (declared.capabilities?.includes('audio_output') && protocol.speech === undefined)
    faults.add([...path, 'capabilities'], `the kind "${protocol.kind}" has no speech`)
  if (declared.translates === true && protocol.translation === undefined)
    faults.add([...path, 'translates'], `the kind "${protocol.kind}" has no translation`)
  if (configured.access === 'platform') checkPrice(facts, path, faults)
  return facts
}

function isFilled(list: readonly Capability[] | undefined): list is readonly Capability[] {
  return list !== undefined && list.length > 0
}

/** An entry's declarations over its provider's; limits one by one. */
function merge(provider: Declared, entry: Declared): Declared {
  const merged: Record<string, unknown> = {}
  for (const name of FIELDS) {
    const value = entry[name] ?? provider[name]
    if (value !== undefined) merged[name] = value
  }
  return { ...merged, limits: { ...provider.limits, ...entry.limits } }
}

const FIELDS = ['capabilities', 'features', 'translation_features', 'hints', 'price', 'translates'] as const

/** What a price is charged for, the model must be able to do. */
function pricedIn(price: Price | undefined): Capability[] {
  const capabilities: Capability[] = []
  if (price?.per_hour_usd !== undefined) capabilities.push('audio_input')
  if (price?.per_1k_characters_usd !== undefined) capabilities.push('audio_output')
  return capabilities
}

/** Platform calls are paid out of credits, so what they cost has to be known. */
function checkPrice({ capabilities, price }: ModelFacts, path: Path, faults: Faults): void {
  const why = 'platform access needs it, and the built-in table has none for this model'
  if (capabilities.includes('audio_input') && price?.per_hour_usd === undefined)
    faults.add([...path, 'price', 'per_hour_usd'], `is missing: ${why}`)
  if (capabilities.includes('audio_output') && price?.per_1k_characters_usd === undefined)
    faults.add([...path, 'price', 'per_1k_characters_usd'], `is missing: ${why}`)
}
