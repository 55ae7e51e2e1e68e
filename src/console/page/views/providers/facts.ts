import type { Price } from '../../../../contracts/facts.ts'
import type { ProviderFields } from '../../../../gateway/catalog/file.ts'
import type { ProviderAnswer } from '../../../server/answers/providers.ts'

/** Facts about models that a provider or an entry of a route can declare. */
export type DeclaredFacts = ProviderAnswer['facts']
export type FactsChange = { readonly [Name in keyof DeclaredFacts]?: DeclaredFacts[Name] | undefined }

/** Facts that have fields of their own; the others are edited as JSON. */
const OWN_FIELDS = ['capabilities', 'features', 'hints', 'translates', 'price'] as const

/** Names of all facts among the fields of an entry or provider. */
const FACTS: Readonly<Record<keyof DeclaredFacts, true>> = {
  capabilities: true,
  operations: true,
  features: true,
  translation_features: true,
  hints: true,
  conflicts: true,
  languages: true,
  limits: true,
  price: true,
  translates: true,
  live: true,
  region: true,
  retention: true,
  training: true,
  // No facts of a model, but edited with them; only a provider takes them.
  concurrency: true,
  queue_ms: true,
  rate_limit: true,
  prices: true,
}
const FACT_NAMES = Object.keys(FACTS) as readonly (keyof DeclaredFacts)[]

/** The facts among the fields of an entry. */
export function factsIn(fields: Readonly<Record<string, unknown>>): DeclaredFacts {
  return pick(fields, FACT_NAMES)
}

/** Applies a change to facts; undefined removes one. */
export function changedFacts(facts: DeclaredFacts, change: FactsChange): DeclaredFacts {
  return pick({ ...facts, ...change }, FACT_NAMES)
}

/** Facts without fields of their own. */
export function otherFacts(facts: DeclaredFacts): Readonly<Record<string, unknown>> {
  const own: readonly string[] = OWN_FIELDS
  return pick(
    facts,
    FACT_NAMES.filter((name) => !own.includes(name)),
  )
}

/** The change that makes these the only other facts. */
export function changeOfOthers(others: Readonly<Record<string, unknown>> | undefined): {
  readonly change: FactsChange
  /** Names that are not facts. */
  readonly unknown: readonly string[]
} {
  const own: readonly string[] = OWN_FIELDS
  const names = FACT_NAMES.filter((name) => !own.includes(name))
  return {
    change: Object.fromEntries(names.map((name) => [name, others?.[name]])) as FactsChange,
    unknown: Object.keys(others ?? {}).filter((name) => !(names as readonly string[]).includes(name)),
  }
}

/** A part of the price that is one number, and its unit. */
export const PRICE_PARTS = {
  per_hour_usd: 'Per hour of audio',
  per_1k_characters_usd: 'Per 1,000 characters spoken',
  per_1m_input_tokens_usd: 'Per million tokens in',
  per_1m_output_tokens_usd: 'Per million tokens out',
  per_1m_cached_input_tokens_usd: 'Per million cached tokens in',
  per_1m_audio_input_tokens_usd: 'Per million audio tokens in',
  per_1m_audio_output_tokens_usd: 'Per million audio tokens out',
  per_image_usd: 'Per image',
  per_video_second_usd: 'Per second of video',
} as const satisfies Partial<Record<keyof Price, string>>

export type PricePart = keyof typeof PRICE_PARTS

/** The price with one part set, or (undefined) without it; undefined when nothing is left of it. */
export function withPricePart(
  price: DeclaredFacts['price'],
  part: PricePart,
  amount: number | undefined,
): DeclaredFacts['price'] | undefined {
  const parts = Object.entries({ ...price, [part]: amount }).filter(([, value]) => value !== undefined)
  return parts.length === 0 ? undefined : (Object.fromEntries(parts) as Price)
}

function pick(fields: Readonly<Record<string, unknown>>, names: readonly string[]): DeclaredFacts {
  const found = names.flatMap((name) => (fields[name] === undefined ? [] : [[name, fields[name]] as const]))
  return Object.fromEntries(found) as Pick<ProviderFields, keyof DeclaredFacts>
}

/** Reads a JSON object out of text, or says why it is not one. */
type ReadJson =
  | { readonly value: Readonly<Record<string, unknown>> | undefined; readonly fault: null }
  | { readonly value: null; readonly fault: string }

/** An empty text is no object at all: `value` undefined. */
export function readJsonObject(text: string): ReadJson {
  if (text.trim() === '') return { value: undefined, fault: null }
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null && !Array.isArray(value))
      return { value: value as Record<string, unknown>, fault: null }
    return { value: null, fault: 'Enter a JSON object: it begins with { and ends with }.' }
  } catch (error) {
    return {
      value: null,
      fault: `This is no JSON: ${error instanceof Error ? error.message : 'unreadable'}.`,
    }
  }
}

/** Text of a value for editing; empty if there is none. */
export function jsonText(value: Readonly<Record<string, unknown>> | undefined): string {
  return value === undefined || Object.keys(value).length === 0 ? '' : JSON.stringify(value, null, 2)
}
