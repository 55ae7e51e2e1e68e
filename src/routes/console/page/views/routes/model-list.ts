import type { EntryFields } from '../../../../../catalog/file.ts'
import type { Capability, Feature } from '../../../../../schema/calls.ts'
import type { ModelAnswer, ModelsAnswer } from '../../../api/answers.ts'

type ModelProvider = ModelsAnswer['providers'][number]

/** A model that an entry may name. */
export interface Choice {
  readonly provider: ModelProvider
  readonly model: ModelAnswer
  /** Tells it from all others. */
  readonly id: string
}

/** All models of all providers, by provider, as the answer has them. */
export function choicesOf({ providers }: ModelsAnswer): readonly Choice[] {
  return providers.flatMap((provider) =>
    provider.models.map((model) => ({ provider, model, id: `${provider.name}/${model.model}` })),
  )
}

/**
 * Those that can do what is asked for and whose names hold every word that was typed.
 *
 * @param capability empty: whatever they can do
 */
export function matching(
  choices: readonly Choice[],
  text: string,
  capability: Capability | '',
): readonly Choice[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean)
  return choices.filter(({ id, provider, model }) => {
    const name = `${id} ${provider.kind}`.toLowerCase()
    const able = capability === '' || model.capabilities.includes(capability)
    return able && words.every((word) => name.includes(word))
  })
}

/** What is known of the model of an entry: what the entry itself declares wins. Null: it is in no list. */
export function factsOfEntry(models: ModelsAnswer, entry: EntryFields) {
  const provider = models.providers.find(({ name }) => name === entry.provider) ?? null
  const known = provider?.models.find(({ model }) => model === entry.model) ?? null
  return {
    provider,
    isListed: known !== null,
    capabilities: (entry.capabilities ?? known?.capabilities ?? []) as readonly Capability[],
    features: (entry.features ?? known?.features ?? []) as readonly Feature[],
    price: entry.price ?? known?.price ?? null,
    translates: entry.translates ?? known?.translates ?? false,
  }
}
