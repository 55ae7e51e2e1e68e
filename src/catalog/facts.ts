import type { Capability } from '../schema/calls.ts'
import { FACT_SHAPES, type Price } from '../schema/facts.ts'
import { CAPABILITY_OF, OPERATION_NAMES } from '../schema/operations.ts'
import { type ModelFacts, operationOf, type Provider } from '../schema/provider.ts'
import type { Faults, Path } from './faults.ts'
import type { EntryFields } from './file.ts'
import { checkPrice, checkTerms } from './price.ts'
import type { ResolvedProvider } from './provider.ts'

/** What the file says of a model; its shape is checked. */
type Declared = Partial<ModelFacts>

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
  const declared = merge(fields as Declared, entry as Declared)
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
  for (const capability of declared.capabilities ?? []) checkProtocol(capability, protocol, path, faults)
  if (declared.translates === true && protocol.translation === undefined)
    faults.add([...path, 'translates'], `the kind "${protocol.kind}" has no translation`)
  if (declared.price !== undefined && declared.price !== null)
    checkTerms(declared.price, [...path, 'price'], faults)
  if (configured.access === 'platform') checkPrice(facts, protocol, path, faults)
  return facts
}

/** A declared capability that none of the protocol's operations could use. */
function checkProtocol(capability: Capability, protocol: Provider, path: Path, faults: Faults): void {
  const names = OPERATION_NAMES.filter((name) => CAPABILITY_OF[name] === capability && name !== 'translation')
  if (names.length === 0 || names.some((name) => operationOf(protocol, name) !== undefined)) return
  faults.add([...path, 'capabilities'], `the kind "${protocol.kind}" has no ${names.join(', ')}`)
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

const FIELDS = Object.keys(FACT_SHAPES).filter((name) => name !== 'limits') as Exclude<
  keyof typeof FACT_SHAPES,
  'limits'
>[]

/** What a price is charged for, the model must be able to do. */
function pricedIn(price: Price | null | undefined): Capability[] {
  const capabilities: Capability[] = []
  if (price?.per_hour_usd !== undefined) capabilities.push('audio_input')
  if (price?.per_1k_characters_usd !== undefined) capabilities.push('audio_output')
  return capabilities
}
