import type { Capability } from '../contracts/calls.ts'
import { FACT_SHAPES, type Price } from '../contracts/facts.ts'
import { CAPABILITY_OF, OPERATION_NAMES, type OperationName } from '../contracts/operations.ts'
import { isFor, type ModelFacts, operationOf, type Provider } from '../contracts/provider.ts'
import type { EntryFields } from './file.ts'
import type { Issues, Path } from './issues.ts'
import type { ResolvedProvider } from './provider.ts'

/** Facts that the file declares for a model, in a shape that was checked. */
type Declared = Partial<ModelFacts>

const UNKNOWN_MODEL: Omit<ModelFacts, 'capabilities'> = {
  features: [],
  hints: [],
  limits: {},
  price: null,
  translates: false,
}

/**
 * Resolves the facts of an entry's model: the built-in table, overridden by the provider's declarations, then by the
 * entry's. A model missing from the table has only its declared capabilities or, without any, those that its declared
 * price covers. Null when there are neither; the reason is added to `issues`.
 */
export function resolveFacts(
  { configured, protocol, fields }: ResolvedProvider,
  entry: EntryFields,
  table: ModelFacts | undefined,
  path: Path,
  issues: Issues,
): ModelFacts | null {
  const declared = merge(fields as Declared, entry as Declared)
  const capabilities = [declared.capabilities, table?.capabilities, pricedIn(declared.price)].find(isFilled)
  if (capabilities === undefined) {
    issues.add([...path, 'model'], 'is not in the built-in table: declare its capabilities')
    return null
  }
  const { limits, ...rest } = declared
  const facts: ModelFacts = {
    ...(table ?? UNKNOWN_MODEL),
    ...rest,
    capabilities,
    limits: { ...table?.limits, ...limits } as ModelFacts['limits'],
  }
  for (const capability of declared.capabilities ?? []) checkProtocol(capability, protocol, path, issues)
  if (declared.translates === true && protocol.translation === undefined)
    issues.add([...path, 'translates'], `the kind "${protocol.kind}" has no translation`)
  if (declared.price !== undefined && declared.price !== null)
    checkTerms(declared.price, [...path, 'price'], issues)
  checkLive(declared, protocol, path, issues)
  if (configured.access === 'platform') checkPrice(facts, protocol, path, issues)
  return facts
}

/** Adds issues of declared facts of live audio: what it cannot have, and what is said of it in the wrong place. */
function checkLive({ live, ...declared }: Declared, protocol: Provider, path: Path, issues: Issues): void {
  for (const list of ['features', 'translation_features'] as const)
    if (declared[list]?.includes('realtime') === true)
      issues.add(
        [...path, list],
        '`realtime` cannot stand here: declare what the model keeps live under `live`',
      )
  if (live === undefined) return
  if (protocol.live === undefined)
    issues.add([...path, 'live'], `the kind "${protocol.kind}" has no live transcription`)
  if (live.price !== undefined) checkTerms(live.price, [...path, 'live', 'price'], issues)
}

/** A declared capability that none of the protocol's operations could use. */
function checkProtocol(capability: Capability, protocol: Provider, path: Path, issues: Issues): void {
  const names = OPERATION_NAMES.filter((name) => CAPABILITY_OF[name] === capability && name !== 'translation')
  if (names.length === 0 || names.some((name) => operationOf(protocol, name) !== undefined)) return
  issues.add([...path, 'capabilities'], `the kind "${protocol.kind}" has no ${names.join(', ')}`)
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

/** Capabilities that a price implies: a model is only charged for what it can do. */
function pricedIn(price: Price | null | undefined): Capability[] {
  const capabilities: Capability[] = []
  if (price?.per_hour_usd !== undefined) capabilities.push('audio_input')
  if (price?.per_1k_characters_usd !== undefined) capabilities.push('audio_output')
  return capabilities
}

type PartOfPrice = keyof Price

const TOKENS: readonly PartOfPrice[] = ['per_1m_input_tokens_usd', 'per_1m_output_tokens_usd']

/** Price parts that give each operation a cost: all parts of one of its sets. */
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

/** Adds issues of a price that its shape cannot hold: periods that end before they begin, tiers out of order. */
export function checkTerms(price: Price, path: Path, issues: Issues): void {
  checkTiers(price, path, issues)
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
function checkPrice(facts: ModelFacts, protocol: Provider, path: Path, issues: Issues): void {
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
