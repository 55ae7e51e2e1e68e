import type { ProviderFields } from '../../../../../catalog/file.ts'
import type { Price } from '../../../../../schema/facts.ts'
import type { ProviderAnswer } from '../../../api/answers.ts'

/** What can be declared of models, at a provider or at an entry of a route. */
export type DeclaredFacts = ProviderAnswer['facts']
export type FactsChange = { readonly [Name in keyof DeclaredFacts]?: DeclaredFacts[Name] | undefined }

/** Facts that have fields of their own; the others are edited as JSON. */
const OWN_FIELDS = ['capabilities', 'features', 'hints', 'translates', 'price'] as const

/** Names of all facts: what of an entry's or provider's fields is one. */
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
}
const FACT_NAMES = Object.keys(FACTS) as readonly (keyof DeclaredFacts)[]

/** The facts among the fields of an entry. */
export function factsIn(fields: Readonly<Record<string, unknown>>): DeclaredFacts {
  return pick(fields, FACT_NAMES)
}

/** Facts with a change made to them; what is undefined in it is taken away. */
export function changedFacts(facts: DeclaredFacts, change: FactsChange): DeclaredFacts {
  return pick({ ...facts, ...change }, FACT_NAMES)
}

/** Those without fields of their own. */
export function otherFacts(facts: DeclaredFacts): Readonly<Record<string, unknown>> {
  const own: readonly string[] = OWN_FIELDS
  return pick(
    facts,
    FACT_NAMES.filter((name) => !own.includes(name)),
  )
}

/** What is to be set, and unset, so that the other facts are these and no more. */
export function changeOfOthers(others: Readonly<Record<string, unknown>> | undefined): {
  readonly change: FactsChange
  /** Names that are no such facts. */
  readonly unknown: readonly string[]
} {
  const own: readonly string[] = OWN_FIELDS
  const names = FACT_NAMES.filter((name) => !own.includes(name))
  return {
    change: Object.fromEntries(names.map((name) => [name, others?.[name]])) as FactsChange,
    unknown: Object.keys(others ?? {}).filter((name) => !(names as readonly string[]).includes(name)),
  }
}

/** A part of the price that is one number, with what it is charged for. */
export const PRICE_PARTS = {
  per_hour_usd: 'Per hour of audio',
  per_1k_characters_usd: 'Per 1,000 characters spoken',
  per_1m_input_tokens_usd: 'Per million tokens in',
  per_1m_output_tokens_usd: 'Per million tokens out',
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

/** USD as typed: the number, undefined for nothing, null for what is no amount. */
export function readUsd(text: string): number | undefined | null {
  const trimmed = text.trim().replace(/^\$/, '')
  if (trimmed === '') return undefined
  return /^\d{1,9}(\.\d{1,6})?$/.test(trimmed) ? Number(trimmed) : null
}

function pick(fields: Readonly<Record<string, unknown>>, names: readonly string[]): DeclaredFacts {
  const found = names.flatMap((name) => (fields[name] === undefined ? [] : [[name, fields[name]] as const]))
  return Object.fromEntries(found) as Pick<ProviderFields, keyof DeclaredFacts>
}
