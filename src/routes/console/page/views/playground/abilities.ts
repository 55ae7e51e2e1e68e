import type { Feature } from '../../../../../schema/calls.ts'
import type { ModelsAnswer, RouteAnswer } from '../../../api/answers.ts'

/** What is known of the entries that would hear, or speak, for an app. */
export interface Abilities {
  readonly hears: boolean
  readonly speaks: boolean
  /** Kept by an entry that hears; null: of some entry it is not known. */
  readonly features: ReadonlySet<Feature> | null
  readonly entries: readonly string[]
}

/** Out of the published fields of a route and the models' table; null where neither tells. */
export function abilitiesOf(route: RouteAnswer, { providers }: ModelsAnswer): Abilities | null {
  const entries = route.published?.fields.entries
  if (entries === undefined) return null
  const known = entries.map((entry) => {
    const models = providers.find(({ name }) => name === entry.provider)?.models
    const model = models?.find((one) => one.model === entry.model)
    return {
      name: `${entry.provider}/${entry.model}`,
      capabilities: entry.capabilities ?? model?.capabilities ?? null,
      // The schema's own type forgets which words an enumeration holds.
      features: (entry.features as readonly Feature[] | undefined) ?? model?.features ?? null,
    }
  })
  const may = (capability: 'audio_input' | 'audio_output') =>
    known.some(({ capabilities }) => capabilities === null || capabilities.includes(capability))
  const hearing = known.filter(({ capabilities }) => capabilities?.includes('audio_input') ?? true)
  const unknown = hearing.some(({ features }) => features === null)
  return {
    hears: may('audio_input'),
    speaks: may('audio_output'),
    features: unknown ? null : new Set(hearing.flatMap(({ features }) => features ?? [])),
    entries: known.map(({ name }) => name),
  }
}

/** Whether an option can be asked for; true where nobody knows. */
export function keeps(abilities: Abilities | null, feature: Feature): boolean {
  return abilities?.features?.has(feature) ?? true
}
