import type { Capability } from '../../contracts/calls.ts'
import { FACT_SHAPES, type Price } from '../../contracts/facts.ts'
import { CAPABILITY_OF, OPERATION_NAMES } from '../../contracts/operations.ts'
import { type ModelFacts, operationOf, type Provider } from '../../contracts/provider.ts'
import type { EntryFields, WorkspaceFields } from './file.ts'
import { checkBounds, type Issues, type Path } from './issues.ts'
import { agreedIn, checkPrice, checkTerms } from './prices.ts'
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

/** Knowledge of a model besides what the file declares of it. */
export interface KnownOfModel {
  /** Its facts in the built-in table; undefined: it lacks the model. */
  readonly table: ModelFacts | undefined
  /** Prices that the workspace of the entry has agreed upon. */
  readonly prices: WorkspaceFields['prices']
}

/**
 * Resolves the facts of an entry's model: the built-in table, overridden by the provider's declarations, then by prices
 * of contracts, the workspace's before the provider's, then by the entry's declarations. A model that the table lacks
 * has only its declared capabilities or, without any, those that its declared price covers. Null when there are
 * neither; the reason is added to `issues`.
 */
export function resolveFacts(
  { configured, protocol, fields }: ResolvedProvider,
  entry: EntryFields,
  { table, prices }: KnownOfModel,
  path: Path,
  issues: Issues,
): ModelFacts | null {
  const agreed = [prices?.[configured.name], fields.prices].map((list) => agreedIn(list, entry.model))
  const price = entry.price ?? agreed.find((one) => one.price !== undefined)?.price
  const merged = merge(fields as Declared, entry as Declared)
  const declared = price === undefined ? merged : { ...merged, price }
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
  const livePrice =
    entry.live?.price === undefined ? agreed.find((one) => one.live !== undefined)?.live : undefined
  if (livePrice !== undefined && facts.live !== undefined)
    Object.assign(facts, { live: { ...facts.live, price: livePrice } })
  for (const capability of declared.capabilities ?? []) checkProtocol(capability, protocol, path, issues)
  if (declared.translates === true && protocol.translation === undefined)
    issues.add([...path, 'translates'], `the kind "${protocol.kind}" has no translation`)
  if (merged.price !== undefined && merged.price !== null)
    checkTerms(merged.price, [...path, 'price'], issues)
  checkBounds(limits?.speed, [...path, 'limits', 'speed'], issues)
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
